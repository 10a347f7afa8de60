// One lane of a comparison: stat tiles and the token view. The value is one JSON string: token rows from `start` on, or all of them
// (`whole`). Text enters the page through textContent only; no value is ever part of a template.
const lane = element.querySelector(".mars-lane");
const at = (name) => lane.querySelector(".mars-" + name);
const title = at("lane-title"), chip = at("lane-state"), tiles = at("tiles"), bar = at("progress").firstElementChild;
const text = at("text"), note = at("lane-note"), check = at("check"), pop = at("pop"), spoken = at("sr"), parting = at("parting");
const memory = (window.marsLanes ||= {}), views = (window.marsViews ||= {});
const key = props.scope + "/" + props.lane;
const PLAIN_VIEW = { quantity: "outcome", intensity: 0.8, granularity: "token", steps: true, theta: 0.9 };

let state = memory[key] || { run: null, rows: [], latest: null };
memory[key] = state;
state.element = lane;
let view = views[props.scope] || PLAIN_VIEW;
let active = -1, pinned = false, rested = 0;  // rested: where the arrow keys go on
let follows = true;  // the end of the text stays in sight while it grows
let shown = Infinity;  // tokens that the replay has reached
for (const [name, colour] of Object.entries(props.hues)) lane.style.setProperty("--mars-hue-" + name, colour);

const make = (tag, name, content) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (content !== undefined) node.textContent = content;
  return node;
};
const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
const ended = () => Boolean(state.latest) && !["empty", "waiting", "running"].includes(state.latest.state);
const length = () => Math.min(shown, state.rows.length);

// Listens as long as this lane is on the page, to what concerns its result.
function listen(name, answer) {
  const heard = (event) => {
    if (!lane.isConnected) return document.removeEventListener(name, heard);
    if (event.detail.scope === props.scope) answer(event.detail);
  };
  document.addEventListener(name, heard);
}
