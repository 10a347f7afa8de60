// Colours: one attribute a token in one pass; how strong they are in all is one property of the text.
const HUES = { 1: "near", "-1": "sure" };

function paint(from = 0) {
  const quantity = QUANTITIES[view.quantity];
  text.dataset.colour = view.quantity;
  text.classList.toggle("outcomes", view.outcomes);
  if (view.quantity === "outcome") return from || unpaint();
  if (view.quantity === "whatif") return foresee(from);
  let first = from;
  while (first > 0 && view.granularity !== "token" && !begins(state.rows, first, view.granularity))
    first -= 1;
  for (const group of groups(state.rows, view.granularity, first, state.rows.length)) {
    const amount = strength(
      quantity,
      valueOf(state.rows, group, quantity, view.granularity),
      view.theta,
    );
    const hue = quantity.key === "r" ? HUES[Math.sign(amount)] : "amount";
    for (let i = group[0]; i < group[1]; i += 1) tint(text.children[i], hue, Math.abs(amount));
  }
  forget();
}

function tint(node, hue, amount) {
  if (amount)
    node.setAttribute(
      "style",
      `--mars-hue:var(--mars-hue-${hue});--mars-share:${(props.most * amount).toFixed(1)}`,
    );
  else node.removeAttribute("style");
}

const forget = () => text.querySelectorAll("[data-if]").forEach((node) => delete node.dataset.if);

function unpaint() {
  for (const node of text.querySelectorAll("[style]")) node.removeAttribute("style");
  forget();
}

// Would be kept, would be rejected at θ; what differs from the run stands out.
function foresee(from) {
  const codes = (state.latest.judged || "").split(",");
  for (let i = from; i < state.rows.length; i += 1) {
    const node = text.children[i],
      kept = wouldKeep(state.rows[i], codes[i] || "", view.theta).some(Boolean);
    if (!codes[i]) {
      node.removeAttribute("style");
      delete node.dataset.if;
      continue;
    }
    const changed = kept !== keptByRun(state.rows[i]);
    node.dataset.if = (kept ? "kept" : "refused") + (changed ? " changed" : "");
    tint(node, kept ? "kept" : "refused", changed ? 1 : 0.4);
  }
}
