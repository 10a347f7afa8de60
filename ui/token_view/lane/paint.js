// Colours: one attribute a token; how strong they are in all is one property of the text.
const HUES = { 1: "near", "-1": "sure" };

// Colour what has spans, each part of a long text in a frame of its own.
function paint() {
  text.dataset.colour = view.quantity;
  for (const part of parts().filter(open)) {
    const first = firstOf(part);
    if (long()) inFrame(`${mounted}/colour/${first}`, () => open(part) && paintPart(part, first));
    else paintPart(part, first);
  }
}

// Colour the tokens of a part from one on, and those before it that are of its word or sentence.
function paintPart(part, from) {
  const quantity = QUANTITIES[view.quantity],
    spans = part.children,
    first = firstOf(part),
    after = first + spans.length,
    nodeOf = (index) => spans[index - first];
  part.classList.toggle("outcomes", view.outcomes);
  if (view.quantity === "outcome") return Array.from(spans, plain);
  if (view.quantity === "whatif") return foresee(from, after, nodeOf);
  for (const group of groups(state.rows, view.granularity, ...whole(from, after))) {
    const amount = strength(
      quantity,
      valueOf(state.rows, group, quantity, view.granularity),
      view.theta,
    );
    const hue = quantity.key === "r" ? HUES[Math.sign(amount)] : "amount";
    for (let i = Math.max(first, group[0]); i < Math.min(after, group[1]); i += 1)
      tint(nodeOf(i), hue, Math.abs(amount));
  }
}

// The tokens from the beginning of the first one's word or sentence to the end of the last one's.
function whole(from, after) {
  const middle = (i) => view.granularity !== "token" && !begins(state.rows, i, view.granularity);
  while (from > 0 && middle(from)) from -= 1;
  while (after < state.rows.length && middle(after)) after += 1;
  return [from, after];
}

function tint(node, hue, amount, word) {
  node.classList.add("tinted");
  if (amount)
    node.setAttribute(
      "style",
      `--mars-hue:var(--mars-hue-${hue});--mars-share:${(props.most * amount).toFixed(1)}`,
    );
  else node.removeAttribute("style");
  if (word) node.dataset.if = word;
  else delete node.dataset.if;
}

function plain(node) {
  if (!node.classList.contains("tinted")) return;
  node.classList.remove("tinted");
  node.removeAttribute("style");
  delete node.dataset.if;
}

// Would be kept, would be rejected at θ; what differs from the run stands out.
function foresee(from, after, nodeOf) {
  const codes = (state.latest.judged || "").split(",");
  for (let i = from; i < after; i += 1) {
    if (!codes[i]) {
      tint(nodeOf(i), "", 0);
      continue;
    }
    const kept = wouldKeep(state.rows[i], codes[i], view.theta).some(Boolean),
      changed = kept !== keptByRun(state.rows[i]),
      word = kept ? "kept" : "refused";
    tint(nodeOf(i), word, changed ? 1 : 0.4, changed ? word + " changed" : word);
  }
}
