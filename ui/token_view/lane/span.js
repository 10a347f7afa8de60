// A token of the text as a span. White space at a line's end and bytes that are no character yet stay visible.
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
