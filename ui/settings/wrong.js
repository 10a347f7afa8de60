// Where a run was refused: the field that the sentence names is shown, marked and focused, with the sentence under it.
const note = document.createElement("small");
note.className = "mars-wrong";
note.id = CONSTANTS.panel + "-wrong";
let wrong = null; // that field

// Words as sentences and labels share them: "top_k", "the tree's top-k", "Top-k (0: off)".
const plain = (text) =>
  ` ${text
    .toLowerCase()
    .replace(/['’]s\b/g, "")
    .split(/[^\p{L}\p{N}.+]+/u)
    .map((word) => word.replace(/[.+]+$/, "").replace(/(?<=...)s$/, ""))
    .filter(Boolean)
    .join(" ")} `;
const promptOf = () => element.closest(".mars-prompt-panel")?.querySelector("textarea");

function namesOf(field) {
  const { name = "prompt", also = "" } = field.dataset; // also: several, between bars
  const label = field.closest("fieldset")?.querySelector("legend") || field.labels[0];
  return [name, ...also.split("|"), label?.textContent.split(/[,(]/)[0] || ""]
    .map(plain)
    .filter((each) => each.trim());
}

// Named as early as any, by the longest name; of several the one with the value that the sentence has.
function named(sentence) {
  const text = plain(sentence),
    fields = [promptOf(), ...box.querySelectorAll("[data-name]:not(:disabled)")];
  const found = fields
    .filter((field) => field && field.type !== "hidden" && !field.closest("[hidden]"))
    .flatMap((field) => namesOf(field).map((name) => ({ field, name, at: text.indexOf(name) })))
    .filter(({ at }) => at >= 0);
  const has = ({ field: { value } }) => text.includes(value.trim() ? plain(value) : " empty ");
  const [first] = found.sort(
    (one, other) =>
      one.at - other.at || other.name.length - one.name.length || has(other) - has(one),
  );
  const quoted = ({ value = "", type }) =>
    /^text/.test(type) && value.length > 2 && sentence.includes(value);
  return first?.field || fields.find((field) => field && quoted(field));
}

function mark() {
  wrong?.setAttribute("aria-invalid", "true");
  wrong?.setAttribute("aria-describedby", note.id);
  if (wrong) (wrong.closest(".mars-fields") || element).append(note);
}

function unmark() {
  for (const name of ["aria-invalid", "aria-describedby"]) wrong?.removeAttribute(name);
  wrong = null;
  note.remove();
}

marsListen(element, "mars:failed", document, (event) => {
  unmark();
  wrong = (element.checkVisibility() && named(event.detail)) || null;
  if (!wrong) return;
  event.preventDefault(); // so that the sentence above the lanes is not scrolled to
  note.textContent = event.detail;
  for (let at = wrong; (at = at.parentElement.closest("details"));) at.open = true;
  mark();
  wrong.focus({ preventScroll: true });
  wrong.scrollIntoView({ block: "center" });
});
marsListen(element, "input", document, ({ target }) => {
  if (target === wrong) unmark();
});
