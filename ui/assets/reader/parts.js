// The bar above the lanes. It reads the rows that the lanes of its scope keep in the window, and tells them how to be drawn.
const bar = element.querySelector(".mars-reader");
const at = (name) => bar.querySelector(".mars-r-" + name);
const quantity = at("quantity"), granularity = at("granularity"), intensity = at("intensity"), steps = at("steps"), theta = at("theta");
const legend = at("legend"), output = at("value"), play = at("play"), speed = at("speed"), scrub = at("scrub"), time = at("time");
const memory = (window.marsLanes ||= {}), views = (window.marsViews ||= {});
const PLAIN = { quantity: "outcome", intensity: 0.8, granularity: "token", steps: true, theta: 0.9 };
for (const [name, colour] of Object.entries(props.hues)) bar.style.setProperty("--mars-hue-" + name, colour);

const make = (tag, name, content) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (content !== undefined) node.textContent = content;
  return node;
};
const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail: { scope: props.scope, ...detail } }));

// The lanes of the scope that are on the page, by column.
const lanes = () => Object.keys(memory)
  .filter((key) => key.slice(0, key.lastIndexOf("/")) === props.scope)
  .sort((one, other) => Number(one.slice(one.lastIndexOf("/") + 1)) - Number(other.slice(other.lastIndexOf("/") + 1)))
  .map((key) => memory[key])
  .filter((lane) => lane.latest && lane.element?.isConnected && !lane.element.closest(".mars-away"));
const stateOf = (lane) => lane.latest.state;
const readable = () => lanes().filter((lane) => lane.rows.length && !["empty", "waiting", "running"].includes(stateOf(lane)));
const busy = () => lanes().some((lane) => ["waiting", "running"].includes(stateOf(lane)));

function listen(name, answer) {
  const heard = (event) => {
    if (!bar.isConnected) return document.removeEventListener(name, heard);
    if (event.detail.scope === props.scope) answer(event.detail);
  };
  document.addEventListener(name, heard);
}
