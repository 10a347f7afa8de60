// A value of the component becomes what is on the page.
const TILE = '<div class="mars-tile"><dt></dt><dd><b></b><small></small></dd></div>';

function drawTiles(list) {
  if (tiles.childElementCount !== list.length) tiles.innerHTML = TILE.repeat(list.length);
  list.forEach(([name, value, unit, help], index) => {
    const tile = tiles.children[index],
      parts = tile.querySelectorAll("dt, b, small");
    tile.title = help;
    [name, value, unit].forEach((words, part) => {
      if (parts[part].textContent !== words) parts[part].textContent = words;
    });
  });
}

// What stands apart from the baseline's text. One that is the baseline's from end to end is not grey.
let apart = { position: null, also: new Set(), ties: new Set() };

function setApart({ diverges: position, shared, near = [] }) {
  const grey = position === null ? [] : shared,
    was = JSON.stringify(apart.of),
    of = [position, grey, near];
  if (was === JSON.stringify(of)) return; // as in every frame of a run
  const also = new Set(grey.flatMap(([first, after]) => range(first, after)));
  apart = { of, position, also, ties: new Set(near) };
  Array.from(text.querySelectorAll(".tok"), mark);
}

function mark(node) {
  const index = Number(node.dataset.i);
  node.classList.toggle("diverges", index === apart.position);
  node.classList.toggle("shared", apart.also.has(index));
  node.classList.toggle("near", apart.ties.has(index));
}

const range = (first, after) => Array.from({ length: after - first }, (_, at) => first + at);

// What stands in place of a text that is not there yet, or never came.
function invite(words) {
  if (state.rows.length) return text.querySelector(".mars-empty")?.remove();
  if (!text.firstChild) text.append(make("p", "mars-empty"));
  if (text.firstChild.textContent !== words) text.firstChild.textContent = words;
}

// Once a run has ended it can be read as text. The HTML is that of ui/token_view/reading.py, in which nothing acts.
function showReading() {
  const { markdown } = state.latest,
    reads = view.reading !== "tokens" && ended(state) && state.rows.length > 0,
    marked = view.reading === "markdown" && markdown !== "";
  text.hidden = reads;
  read.hidden = !reads;
  read.classList.toggle("marked", marked);
  if (!reads) read.textContent = "";
  else if (marked) read.innerHTML = markdown;
  else read.textContent = state.rows.map(([content]) => content).join("");
}

function draw(value) {
  const before = state.latest,
    shares = before?.shared.length !== value.shared.length,
    changed = before?.state !== value.state || state.run !== value.run || shares;
  state.latest = value;
  lane.dataset.state = value.state;
  lane.setAttribute("aria-label", value.title ? "Output of " + value.title : "Output");
  lane.setAttribute("aria-busy", String(value.state === "running"));
  title.textContent = value.title;
  chip.textContent = value.chip;
  note.textContent = value.note;
  [check.dataset.state, check.textContent] = value.check;
  bar.style.transform = "scaleX(" + value.progress + ")";
  drawTiles(value.tiles);
  if (value.run !== state.run) clear();
  state.run = value.run;
  setApart(value);
  if (value.complete) reconcile(value.rows);
  else if (value.start <= state.rows.length)
    append(value.rows.slice(state.rows.length - value.start));
  text.setAttribute(
    "aria-label",
    value.title
      ? `Text of ${value.title}. Arrow keys walk through its tokens, N goes to the next relaxed one.`
      : "Text",
  );
  invite(value.empty);
  if (!changed) return;
  showReading();
  if (follows && ended(state)) inFrame(mounted + "/top", () => (text.scrollTop = 0)); // to be read from its beginning
  if (active >= 0) fill(active); // what can be chosen has changed with the state
  if (view.quantity === "whatif" || view.quantity === "outcome") paint();
  tell("mars:lane", { lane: props.lane });
}

function update() {
  const value = JSON.parse(props.value);
  if (value.run === state.run && state.rows.length && !text.querySelector(".mars-part")) {
    const rows = state.rows; // the tab was left and opened again: what arrived before is kept by the window
    state.rows = [];
    state.latest = value;
    append(rows);
  }
  draw(value);
}
listen("mars:view", (chosen) => {
  const reading = view.reading;
  view = { ...PLAIN_VIEW, ...chosen };
  if (state.latest && view.reading !== reading) {
    if (long())
      inFrame(mounted + "/reading", showReading); // the texts one after the other
    else showReading();
  }
  paint();
  if (active >= 0) fill(active);
});
watch("value", update);
update();
