// The text: a span a token. White space at a line's end and bytes that are no character yet stay visible.
function span(row, index) {
  const [content, outcome, piece] = row;
  const node = make("span", "tok " + OUTCOMES[outcome].name);
  node.dataset.i = index;
  if (index && fieldOf(row, "step") !== fieldOf(state.rows[index - 1], "step") && row[3])
    node.classList.add("step");
  if (content === "") {
    const byte = piece.length < 3 || /^<0x..>$/.test(piece); // of a character that a later token ends
    node.classList.add("hollow", ...(byte ? ["byte"] : []));
    node.textContent = byte ? "" : piece;
  } else if (content.includes("\n")) {
    for (const part of content.split(/(\n)/)) {
      if (part === "\n") node.append(make("i", "newline", "↵"), "\n");
      else if (part) node.append(part);
    }
  } else {
    const words = content.trimStart(); // the mark (class w) belongs to the word, not to the space before it
    if (words && words !== content) {
      node.append(content.slice(0, content.length - words.length), make("span", "w", words));
      return node;
    }
    node.textContent = content;
  }
  node.classList.add("w");
  return node;
}

function append(rows) {
  if (!rows.length) return;
  const fragment = document.createDocumentFragment();
  const first = state.rows.length;
  state.rows.push(...rows);
  rows.forEach((row, offset) => fragment.append(span(row, first + offset)));
  text.append(fragment);
  paint(first);
  if (follows)
    requestAnimationFrame(() => {
      if (state.latest.state === "running") text.scrollTop = 1e9;
    });
}

function clear() {
  hide(true);
  follows = true;
  rested = 0;
  state.rows = [];
  text.replaceChildren();
}

// The whole value: what is on the page already stays, everything from the first difference on is drawn anew.
function reconcile(rows) {
  const same = (row, index) =>
    state.rows[index] && [0, 1, 2, 3].every((part) => state.rows[index][part] === row[part]);
  const differs = rows.findIndex((row, index) => !same(row, index));
  const unchanged = differs < 0 ? Math.min(rows.length, state.rows.length) : differs;
  if (unchanged === rows.length && unchanged === state.rows.length) return;
  hide(true);
  while (text.children.length > unchanged) text.lastElementChild.remove();
  state.rows = state.rows.slice(0, unchanged);
  append(rows.slice(unchanged));
}
