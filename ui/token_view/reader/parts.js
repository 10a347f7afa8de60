// The bar above the lanes. It reads the rows that the lanes of its scope keep in the window, and tells them how to be drawn.
const at = (name) => box.querySelector(".mars-r-" + name);
const quantity = at("quantity"),
  granularity = at("granularity"),
  outcomes = at("outcomes"),
  theta = at("theta");
const legend = at("legend"),
  output = at("value"),
  play = at("play"),
  speed = at("speed"),
  scrub = at("scrub"),
  time = at("time");

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
