// Steps around Compare for a first visit. The browser remembers that the tour was closed.
const TOUR = [
  [
    "#compare-step .mars-step",
    "One step: a small drafter proposes tokens, the target model checks all of them in one pass, and the text gains those that are kept and one of the target's own. MARS also keeps a near tie.",
  ],
  [
    "#compare-strip",
    "The result in three numbers, which are the same whenever the run is repeated, and a sentence. The time comes last; it belongs to this machine.",
  ],
  [
    "#compare-lane-1 .mars-text",
    "The text, token by token. A thick orange underline marks a relaxed token: strict verification would have rejected it. Hover over any token, or press it, for its numbers.",
  ],
  [
    "#compare-reader",
    "Move θ: tokens turn where MARS would decide otherwise, and the count of drafts and passes follows. Run with this θ makes it a run of its own. Above it, the text as plain text or Markdown, and its colours.",
  ],
  [
    "#compare",
    "Your turn: type a prompt and press Compare, or Ctrl+Enter. Model pair, drafter, rules and numbers are under Settings.",
  ],
];
const card = element.querySelector(".mars-tour"),
  opener = element.querySelector(".mars-tour-open");
let step = -1;
const marked = () =>
  document.querySelectorAll(".mars-toured").forEach((node) => node.classList.remove("mars-toured"));

function show(next) {
  const [selector, text] = TOUR[(step = next)],
    target = document.querySelector(selector);
  marked();
  target?.classList.add("mars-toured");
  target?.scrollIntoView({ block: "nearest" });
  if (!next) document.dispatchEvent(new CustomEvent("mars:play", { detail: { scope: "compare" } }));
  card.querySelector("p").textContent = text;
  card.querySelector("small").textContent = `${step + 1} of ${TOUR.length}`;
  card.querySelector('[data-tour="back"]').disabled = !step;
  card.querySelector('[data-tour="next"]').textContent = step < TOUR.length - 1 ? "Next" : "Done";
}

function end() {
  card.hidden = true;
  marked();
  opener.textContent = "Tour";
  opener.focus();
  marsStorage.write("mars-tour", "closed");
}

if (marsStorage.read("mars-tour")) opener.textContent = "Tour";
opener.addEventListener("click", () => {
  [...document.querySelectorAll('[role="tab"]')]
    .find((tab) => tab.textContent.trim() === "Compare")
    ?.click();
  card.hidden = false;
  show(0);
  card.querySelector('[data-tour="next"]').focus();
});
card.addEventListener("click", ({ target }) => {
  if (target.dataset.tour === "end" || (target.dataset.tour === "next" && step === TOUR.length - 1))
    end();
  else if (target.dataset.tour) show(step + (target.dataset.tour === "next" ? 1 : -1));
});
card.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") end();
});
