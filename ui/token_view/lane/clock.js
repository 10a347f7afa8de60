// Replay: at time t the tokens of the steps that had ended by then; the others keep their places unseen.
function reached(t) {
  const times = state.latest.times,
    index = (row) => fieldOf(row, "step");
  const steps = times.findIndex((time) => time > t);
  const next = steps < 0 ? -1 : state.rows.findIndex((row) => index(row) >= steps);
  return next < 0 ? state.rows.length : next;
}

function clock({ t }) {
  const before = length();
  reachedTokens = t === null || !ended(state) ? Infinity : reached(t);
  const now = length();
  for (let i = Math.min(before, now); i < Math.max(before, now); i += 1)
    text.children[i].classList.toggle("later", i >= now);
  lane.classList.toggle("replays", reachedTokens < Infinity);
  if (active >= now) hide(true);
  chip.textContent =
    reachedTokens < Infinity
      ? `${count(now)} of ${count(state.rows.length)} tokens`
      : (state.latest?.chip ?? "");
  if (now > before && reachedTokens < Infinity) follow(text.children[now - 1]);
}

// The text scrolls, the page does not.
function follow(node) {
  const below = node.offsetTop + node.offsetHeight - text.scrollTop - text.clientHeight;
  if (below > 0 || node.offsetTop < text.scrollTop) text.scrollTop += below + 24;
}
listen("mars:clock", clock);
