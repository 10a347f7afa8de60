// One row a prompt and rule. Its first cell is a button that asks for both texts of the run that lost most. Written with textContent.
const box = element.querySelector(".mars-quality-list"), note = element.querySelector(".mars-heading p");
let chosen = "";

function mark() {
  for (const row of box.querySelectorAll("tbody tr")) {
    row.classList.toggle("chosen", row.dataset.run === chosen);
    row.querySelector("button").setAttribute("aria-pressed", String(row.dataset.run === chosen));
  }
}

function choose(run) {
  chosen = run;
  mark();
  trigger("select", { run });
}

function line({ run, cells }) {
  const row = rowOf(cells), first = row.firstElementChild, [text, small] = cells[0], button = make("button", "", text);
  button.type = "button";
  row.dataset.run = run;
  first.replaceChildren(button, ...(small ? [make("small", "", small)] : []));
  row.addEventListener("click", () => choose(run));
  return row;
}

function update() {
  const { heads: list, rows, note: words } = JSON.parse(props.value);
  const focused = box.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.run : "";
  note.textContent = rows.length ? "Choose one to read both texts, parted where they differ: " + words : words;
  keepingPlace(() => box.replaceChildren(...(rows.length ? [tableOf("Prompts, worst first", list, rows.map(line))] : [])));
  mark();
  if (focused) [...box.querySelectorAll("tbody tr")].find((row) => row.dataset.run === focused)?.querySelector("button").focus({ preventScroll: true });
}
watch("value", update);
update();
