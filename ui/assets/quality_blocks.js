// The blocks of a report as elements. Everything is written with textContent.
function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function heads(list) {
  const rows = [];
  if (list.some(([, , group]) => group)) {
    const row = make("tr");
    for (let at = 0; at < list.length;) {
      const group = list[at][2];
      let width = 0;
      while (at < list.length && list[at][2] === group) { at += 1; width += 1; }
      const cell = make(group ? "th" : "td", "", group);
      if (group) cell.scope = "colgroup";
      cell.colSpan = width;
      row.append(cell);
    }
    rows.push(row);
  }
  const row = make("tr");
  for (const [text, help] of list) {
    const cell = make("th", "", text);
    cell.scope = "col";
    if (help) cell.title = help;
    row.append(cell);
  }
  return [...rows, row];
}

function cellOf([text, small, mark], place) {
  const cell = make(place ? "td" : "th", mark ? "mq-" + mark : "", text);
  if (!place) cell.scope = "row";
  if (small) cell.append(make("small", "", small));
  return cell;
}

const rowOf = (cells) => { const row = make("tr"); row.append(...cells.map(cellOf)); return row; };

function tableOf(label, list, rows) {
  const box = make("div", rows.length > 24 ? "mq-scroll mq-long" : "mq-scroll"), table = make("table");
  const head = make("thead"), body = make("tbody");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  head.append(...heads(list));
  body.append(...rows);
  table.append(head, body);
  box.append(table);
  return box;
}

function listing({ items, kind }) {
  const list = make("ul", "mq-" + kind);
  list.append(...items.map((item) => make("li", "", item)));
  return [list];
}

const BLOCKS = {
  paragraph: ({ text, kind }) => [make(kind === "code" ? "pre" : "p", "mq-" + kind, text)],
  listing,
  table: ({ label, heads: list, rows, note }) => [
    make("h3", "", label), tableOf(label, list, rows.map(rowOf)), ...(note ? [make("p", "mq-note", note)] : []),
  ],
};
const blocksOf = ({ lead, blocks }) => [
  ...(lead ? [make("p", "mq-lead", lead)] : []), ...blocks.flatMap((each) => BLOCKS[each.block](each)),
];

// Draws anew; what was scrolled stays where it was.
function keepingPlace(draw) {
  const places = [...element.querySelectorAll(".mq-scroll")].map((box) => [box.getAttribute("aria-label"), box.scrollLeft, box.scrollTop]);
  draw();
  for (const box of element.querySelectorAll(".mq-scroll")) {
    const found = places.find(([label]) => label === box.getAttribute("aria-label"));
    if (found) [, box.scrollLeft, box.scrollTop] = found;
  }
}
