// The numbers of a comparison side by side. Everything is written with textContent.
const [head, body] = [element.querySelector("thead tr"), element.querySelector("tbody")];

function cell(tag, text, name, help) {
  const node = document.createElement(tag);
  node.textContent = text;
  if (name) node.className = name;
  if (help) node.title = help;
  return node;
}

function value({ text, ratio, verdict }) {
  if (!ratio) return cell("td", text);
  const node = cell("td", text, verdict ? "ratio" : "ratio alone");
  if (verdict) node.append(cell("small", verdict, verdict));
  return node;
}

function update() {
  const { heads, rows } = JSON.parse(props.value);
  element.querySelector("table").dataset.columns = heads.length;
  head.replaceChildren(...heads.map((text) => {
    const node = cell(text ? "th" : "td", text);
    if (text) node.scope = "col";
    return node;
  }));
  body.replaceChildren(...rows.map(([name, help, cells]) => {
    const row = document.createElement("tr"), title = cell("th", name, "", help);
    title.scope = "row";
    row.append(title, ...cells.map(value));
    return row;
  }));
}
watch("value", update);
update();
