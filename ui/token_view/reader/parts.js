// The bar above the lanes. It reads the rows that the lanes of its scope keep in the window, and tells them how to be drawn.
const at = (name) => box.querySelector(".mars-r-" + name);
// In a small window the texts come before the aids.
const narrow = matchMedia("(max-width: 640px)");
at("aids").open = !narrow.matches;
const reading = at("reading"),
  quantity = at("quantity"),
  granularity = at("granularity"),
  outcomes = at("outcomes"),
  linked = at("linked"),
  theta = at("theta");
const legend = at("legend"),
  output = at("value");
