// What lanes and the bar above them share on the page: their state in the window, nodes, and events of one scope.
const memory = (window.marsLanes ||= {}),
  views = (window.marsViews ||= {});
function remembered(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null; // a private window remembers nothing
  }
}
const PLAIN_VIEW = {
  quantity: "outcome",
  granularity: "token",
  reading: "tokens",
  outcomes: remembered("mars-outcomes") === "true",
  linked: remembered("mars-linked") !== "false",
  theta: 0.9,
};
const box = element.firstElementChild;
const ended = (lane) =>
  Boolean(lane.latest) && !["empty", "waiting", "running"].includes(lane.latest.state);
for (const [name, colour] of Object.entries(props.hues))
  box.style.setProperty("--mars-hue-" + name, colour);

const make = (tag, name, content) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (content !== undefined) node.textContent = content;
  return node;
};
const tell = (name, detail) =>
  document.dispatchEvent(new CustomEvent(name, { detail: { scope: props.scope, ...detail } }));

// What follows from a new text, and work on a long one: one in each frame, so that nothing holds up the page. A later one of the same
// name takes its place.
const works = (window.marsWorks ||= new Map());
function inFrame(name, work) {
  if (!works.size) requestAnimationFrame(turn);
  works.set(name, work);
}
function turn() {
  const [name, work] = works.entries().next().value;
  works.delete(name);
  if (works.size) requestAnimationFrame(turn);
  work();
}

// Listens as long as this component is on the page, to what concerns its result.
function listen(name, answer) {
  const heard = (event) => {
    if (!box.isConnected) return document.removeEventListener(name, heard);
    if (event.detail.scope === props.scope) answer(event.detail);
  };
  document.addEventListener(name, heard);
}

// The lanes of the scope that are on the page, by column.
const lanes = () =>
  Object.keys(memory)
    .filter((key) => key.slice(0, key.lastIndexOf("/")) === props.scope)
    .sort((one, other) => one.split("/").at(-1) - other.split("/").at(-1))
    .map((key) => memory[key])
    .filter(
      (lane) => lane.latest && lane.element?.isConnected && !lane.element.closest(".mars-away"),
    );
const readable = () => lanes().filter((lane) => lane.rows.length && ended(lane));
const busy = () => lanes().some((lane) => ["waiting", "running"].includes(lane.latest.state));

// The value at x of a line through points, which go on from each other.
function along(points, x) {
  const after = Math.max(
      1,
      points.findIndex(([at]) => at > x),
    ),
    [[left, low], [right, high]] = [points[after - 1], points[after]];
  return right > left ? low + ((high - low) * (x - left)) / (right - left) : low;
}

// Where lane `to` has what lane `from` has at a position: through what both share with the baseline, between that in proportion.
function counterpart(from, to, position) {
  const base = lanes()[0].rows.length;
  const points = ({ rows, latest: { shared } }) => [
    [0, 0],
    ...shared.flatMap(([first, after, there]) => [
      [first, there],
      [after, there + after - first],
    ]),
    [rows.length, base],
    [Infinity, base],
  ];
  const back = points(to).map(([here, there]) => [there, here]),
    index = Math.floor(along(back, along(points(from), position)));
  return Math.max(0, Math.min(index, to.rows.length - 1));
}
