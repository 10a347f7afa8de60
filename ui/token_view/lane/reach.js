// Hover, click and keys: one stop of the Tab key for the text, arrow keys inside it; Enter or a click pins a token.
function show(index, speak) {
  const row = state.rows[index],
    target = spanOf(index);
  if (!row || !target) return;
  text.querySelector(".active")?.classList.remove("active");
  active = index;
  target.classList.add("active");
  fill(index);
  pop.hidden = false;
  placePopover(target);
  tell("mars:active", { lane: props.lane, position: index });
  if (speak) spoken.textContent = spokenText(row, index);
}

function spokenText(row, index) {
  const words = [row[2], outcomeOf(row), `position ${index}`];
  if (row[3]) words.push(`r ${figure(row, "r")}`, `p ${figure(row, "p")}`);
  if (row[4].length && outcomeOf(row) === "relaxed") words.push(`the target drew ${row[4][0]}`);
  if (index === state.latest.diverges) words.push("first difference");
  return words.join(", ");
}

function hide(force) {
  if (pinned && !force) return;
  pinned = false;
  pop.hidden = true;
  if (active >= 0) {
    rested = active;
    tell("mars:active", { lane: props.lane, position: null });
  }
  text.querySelector(".active")?.classList.remove("active");
  active = -1;
}

// Pins a token and chooses its step, which is shown below; only once the run has ended.
function pin(index) {
  pinned = true;
  show(index);
  if (!ended(state)) return;
  tell("mars:pinned", { lane: props.lane, index });
  trigger("select", { lane: props.lane, index });
}

function line(direction) {
  const here = spanOf(active).getBoundingClientRect();
  let best = active,
    distance = Infinity;
  for (let i = active + direction; i >= 0 && i < state.rows.length; i += direction) {
    const box = spanOf(i).getBoundingClientRect();
    const away = direction * (box.top - here.top);
    if (away > 1.8 * here.height && distance < Infinity) break;
    if (away > 4 && Math.abs(box.left - here.left) < distance)
      [best, distance] = [i, Math.abs(box.left - here.left)];
  }
  return best;
}

// The relaxed token after the one that was read last, or before it; round the end.
function nextRelaxed(back, pins) {
  const all = [...state.rows.keys()].filter((index) => outcomeOf(state.rows[index]) === "relaxed");
  const here = active >= 0 ? active : rested || -1,
    next = back ? all.findLast((index) => index < here) : all.find((index) => index > here);
  if (!all.length) return tell("mars:relaxed", { pins }); // of another lane
  jump({ lane: props.lane, position: next ?? all.at(back ? -1 : 0), pins });
}

const MOVES = {
  ArrowRight: () => active + 1,
  ArrowLeft: () => active - 1,
  ArrowDown: () => line(1),
  ArrowUp: () => line(-1),
  Home: () => 0,
  End: () => state.rows.length - 1,
};

function press(event) {
  if (event.key === "Escape") return hide(true);
  if (event.key === "Enter" && active >= 0) return pinned ? hide(true) : pin(active);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.toLowerCase() === "n") return nextRelaxed(event.shiftKey, false);
  if (!(event.key in MOVES) || !state.rows.length) return;
  event.preventDefault();
  const next =
    active < 0
      ? event.key === "End"
        ? state.rows.length - 1
        : event.key === "Home"
          ? 0
          : rested
      : MOVES[event.key]();
  pinned = false;
  show(Math.max(0, Math.min(next, state.rows.length - 1)), true);
  spanOf(active)?.scrollIntoView({ block: "nearest" });
  placePopover(spanOf(active));
}

function click(event) {
  const target = event.target.closest(".tok");
  if (!target) return;
  const index = Number(target.dataset.i),
    again = pinned && index === active;
  hide(true);
  if (!again) pin(index);
}

// To a position of a lane, in all of them; `quiet`: nothing is said of the token there.
function jump({ lane: side, position, pins = true, quiet = false }) {
  const here = side === props.lane,
    from = memory[props.scope + "/" + side];
  hide(true);
  if (!state.rows.length || !from?.rows.length || (view.linked && !here && !busy())) return;
  if (here && !text.offsetParent) tell("mars:read", {});
  const target = spanOf(here ? position : counterpart(from, state, position));
  if (!target) return;
  target.scrollIntoView({
    block: "center",
    behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
  });
  if (!here || quiet) return;
  text.focus({ preventScroll: true });
  pinned = pins;
  show(position, true);
}

// A cell of the margin map is under the pointer: its token is marked.
function point({ lane: side, position }) {
  text.querySelector(".pointed")?.classList.remove("pointed");
  if (side === props.lane) spanOf(position)?.classList.add("pointed");
}

text.addEventListener("keydown", press);
text.addEventListener("click", click);
text.addEventListener("mouseover", (event) => {
  const target = event.target.closest(".tok");
  if (target && !pinned && place(event) !== left) show(Number(target.dataset.i));
});
lane.addEventListener("mouseleave", () => hide());
text.addEventListener("blur", () => hide());
text.addEventListener("scroll", () => {
  if (active >= 0) placePopover(spanOf(active));
});
pop.addEventListener("keydown", (event) => {
  if (event.key === "Escape") leave(event);
});
listen("mars:show", jump);
listen("mars:point", point);
listen("mars:next", ({ run, pins }) => {
  if (run === state.run) nextRelaxed(false, pins);
});
const look = () =>
  setTimeout(() => {
    follows = text.scrollTop + text.clientHeight >= text.scrollHeight - 40;
  }, 120);
for (const type of ["wheel", "touchmove", "pointerup", "keyup"])
  text.addEventListener(type, look, { passive: true });
