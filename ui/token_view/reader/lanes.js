// The aids are folded away; in a narrow window the lanes are tabs: their names, and which of them is in sight.
const names = at("lanes"),
  more = at("more");
more.addEventListener("click", () =>
  more.setAttribute("aria-expanded", String(box.classList.toggle("open"))),
);
const wrote = (lane) => lane.rows.length > 0;
const relaxes = (lane) => lane.rows.some((row) => outcomeOf(row) === "relaxed");
const next = ({ pins }) => tell("mars:next", { run: lanes().findLast(relaxes)?.run, pins });
at("next").addEventListener("click", next);
listen("mars:relaxed", next);
const card = (lane) => lane.element.closest(".mars-card");

let writing; // the lane that runs; it comes into sight when it begins

function bring(lane) {
  const row = card(lane).parentElement;
  row.scrollLeft += card(lane).getBoundingClientRect().left - row.getBoundingClientRect().left;
}

function mark() {
  const left = names.getBoundingClientRect().left;
  const away = lanes().map((lane) => Math.abs(card(lane).getBoundingClientRect().left - left)),
    least = Math.min(...away);
  Array.from(names.children, (button, index) =>
    button.setAttribute("aria-pressed", String(away[index] === least)),
  );
}

function name() {
  const all = lanes(),
    titles = all.map((lane) => lane.latest.title);
  if (titles.join("\n") !== Array.from(names.children, (button) => button.textContent).join("\n")) {
    names.replaceChildren(
      ...titles.map((title) => Object.assign(make("button", "", title), { type: "button" })),
    );
  }
  names.hidden = all.length < 2;
  if (all.length) card(all[0]).parentElement.onscroll = mark;
  const before = writing;
  writing = all.find((lane) => lane.latest.state === "running");
  if (writing && writing !== before) bring(writing);
  if (before && !busy()) bring(all.findLast(relaxes) || all.findLast(wrote) || before); // what came of it
  at("next").disabled = !all.some(relaxes);
  mark();
}

names.addEventListener("click", ({ target }) => {
  const lane = lanes()[[...names.children].indexOf(target.closest("button"))];
  if (lane) bring(lane);
});
listen("mars:lane", () => requestAnimationFrame(name));
name();
offer();
