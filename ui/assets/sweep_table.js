// The settings of a sweep: one row each; its first cell is a button that asks for the pairs of the setting. A click on a point of the
// chart does the same (mars:show of this scope; its position is the row). Everything is written with textContent.
const note = element.querySelector(".mars-heading p"), head = element.querySelector("thead tr"), body = element.querySelector("tbody");
let chosen = -1, sweep = "";

function make(tag, text, name) {
  const node = document.createElement(tag);
  node.textContent = text;
  if (name) node.className = name;
  return node;
}

function mark() {
  [...body.rows].forEach((row, index) => {
    row.classList.toggle("chosen", index === chosen);
    row.querySelector("button").setAttribute("aria-pressed", String(index === chosen));
  });
}

function choose(row) {
  chosen = row;
  mark();
  trigger("select", { row });
}

function line({ name, cells, best }, index) {
  const row = make("tr", "", best ? "best" : "");
  cells.forEach(([text, small], place) => {
    const cell = make(place ? "td" : "th", place ? text : "");
    if (!place) {
      const button = make("button", text);
      button.type = "button";
      button.setAttribute("aria-label", name + (best ? ", on the Pareto front" : "") + ": show its pairs");
      cell.scope = "row";
      if (best) button.append(make("i", "◆"));
      cell.append(button);
    }
    if (small) cell.append(make("small", small));
    row.append(cell);
  });
  row.addEventListener("click", () => choose(index));
  return row;
}

function update() {
  const value = JSON.parse(props.value);
  if (value.sweep !== sweep) chosen = -1;
  sweep = value.sweep;
  note.textContent = value.against ? "◆ on the Pareto front: no setting is both faster and better in " + value.against + ". Choose a row for its pairs." : "";
  head.replaceChildren(...value.heads.map(([text, help]) => {
    const cell = make("th", text);
    cell.scope = "col";
    cell.title = help;
    return cell;
  }));
  const focused = body.contains(document.activeElement) ? [...body.rows].indexOf(document.activeElement.closest("tr")) : -1;
  body.replaceChildren(...value.rows.map(line));
  mark();
  body.rows[focused]?.querySelector("button").focus();
}

function show({ detail }) {
  if (!element.isConnected) return document.removeEventListener("mars:show", show);
  if (detail.scope === "sweep" && body.rows[detail.position]) choose(detail.position);
}
document.addEventListener("mars:show", show);
watch("value", update);
update();
