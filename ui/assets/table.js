// The numbers of a comparison side by side. Everything is written with textContent.
const [head, body] = [element.querySelector("thead tr"), element.querySelector("tbody")];

function cell(tag, text, name, help) {
  const node = document.createElement(tag);
  node.textContent = text;
  if (name) node.className = name;
  if (help) node.title = help;
  return node;
}

function update() {
  const { heads, rows } = JSON.parse(props.value);
  head.replaceChildren(...heads.map((text) => {
    const node = cell(text ? "th" : "td", text);
    if (text) node.scope = "col";
    return node;
  }));
  body.replaceChildren(...rows.map(([name, help, left, right, ratio, verdict]) => {
    const row = document.createElement("tr"), title = cell("th", name, "", help);
    title.scope = "row";
    const last = cell("td", ratio, verdict ? "ratio" : "ratio alone");
    if (verdict) last.append(cell("small", verdict, verdict));
    row.append(title, cell("td", left), cell("td", right), last);
    return row;
  }));
}
watch("value", update);
update();
