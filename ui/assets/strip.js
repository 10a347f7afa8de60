// The line above the lanes: a hint, progress, the sentence of a comparison, or one clear sentence on what went wrong. textContent only.
const strip = element.querySelector(".mars-strip");
const [, words, side, bar] = strip.children;

function part({ text, kind, lane, position }) {
  if (kind === "break") return document.createElement("br");
  const link = lane !== null && position !== null;
  const node = document.createElement(link ? "button" : kind === "piece" ? "code" : kind === "strong" ? "strong" : "span");
  node.textContent = text;
  if (!link) return node;
  node.type = "button";
  node.className = "mars-link";
  node.title = "Show this token";
  node.addEventListener("click", () =>
    document.dispatchEvent(new CustomEvent("mars:show", { detail: { scope: props.scope, lane, position } })));
  return node;
}

let drawn = "";
function update() {
  if (props.value === drawn) return;
  drawn = props.value;
  const value = JSON.parse(props.value);
  strip.dataset.state = value.state;
  strip.setAttribute("role", value.state === "failed" ? "alert" : "status");
  strip.setAttribute("aria-live", value.state === "running" ? "off" : "polite");
  words.replaceChildren(...value.parts.map(part));
  side.textContent = value.side;
  bar.style.transform = "scaleX(" + value.progress + ")";
}
watch("value", update);
update();
