// One lane of a comparison: stat tiles and the token view. The value is one JSON string: token rows from `start` on, or all of them
// (`complete`). Text enters the page through textContent only; no value is ever part of a template.
const lane = box;
const at = (name) => lane.querySelector(".mars-" + name);
const title = at("lane-title"),
  chip = at("lane-state"),
  tiles = at("tiles"),
  bar = at("progress").firstElementChild;
const text = at("text"),
  read = at("read"),
  note = at("lane-note"),
  check = at("check"),
  pop = at("pop"),
  spoken = at("sr");
const key = props.scope + "/" + props.lane;

// Of this element alone: Gradio may mount the lane anew while work of the one before is waiting.
const mounted = `${key}#${(window.marsMounted = (window.marsMounted || 0) + 1)}`;

let state = memory[key] || { run: null, rows: [], latest: null };
memory[key] = state;
state.element = lane;
state.side = props.lane;
let view = views[props.scope] || PLAIN_VIEW;
let active = -1,
  pinned = false,
  rested = 0; // rested: where the arrow keys go on
let follows = true; // the end of the text stays in sight while it grows, its beginning once it has ended
