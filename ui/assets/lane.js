// One lane of a comparison: stat tiles and the token view. The value is one JSON string: token rows from `start` on, or all of them
// (`whole`). Text enters the page through textContent only; no value is ever part of a template.
const lane = element.querySelector(".mars-lane");
const at = (name) => lane.querySelector(".mars-" + name);
const title = at("lane-title"), chip = at("lane-state"), tiles = at("tiles"), bar = at("progress").firstElementChild;
const text = at("text"), note = at("lane-note"), check = at("check"), pop = at("pop"), spoken = at("sr");
const OUTCOMES = props.outcomes, FIELDS = props.fields;
const memory = (window.marsLanes ||= {});
const key = props.scope + "/" + props.lane;

let state = memory[key] || { run: null, rows: [], latest: null };
memory[key] = state;
let active = -1, pinned = false, follows = true;  // follows: the end of the text stays in sight while it grows

const make = (tag, name, content) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (content !== undefined) node.textContent = content;
  return node;
};

function span(row, index) {
  const [content, outcome, piece] = row;
  const node = make("span", "tok " + OUTCOMES[outcome].name);
  node.dataset.i = index;
  if (content === "") {
    node.classList.add("hollow");
    node.textContent = piece.length > 2 ? piece : "◌";
  } else if (content.includes("\n")) {
    for (const part of content.split(/(\n)/)) {
      if (part === "\n") node.append(make("i", "newline", "↵"), "\n");
      else if (part) node.append(part);
    }
  } else {
    const words = content.trimStart();  // the mark (class w) belongs to the word, not to the space before it
    if (words && words !== content) {
      node.append(content.slice(0, content.length - words.length), make("span", "w", words));
      return node;
    }
    node.textContent = content;
  }
  node.classList.add("w");
  return node;
}

function append(rows) {
  const fragment = document.createDocumentFragment();
  const first = state.rows.length;
  rows.forEach((row, offset) => fragment.append(span(row, first + offset)));
  state.rows.push(...rows);
  text.append(fragment);
  if (follows && state.latest.state === "running") requestAnimationFrame(() => { text.scrollTop = 1e9; });
}

function clear() {
  hide(true);
  follows = true;
  state.rows = [];
  text.replaceChildren();
}

// The whole value: what is on the page already stays, everything from the first difference on is drawn anew.
function reconcile(rows) {
  const same = (row, index) => state.rows[index] && [0, 1, 2].every((part) => state.rows[index][part] === row[part]);
  const differs = rows.findIndex((row, index) => !same(row, index));
  const kept = differs < 0 ? Math.min(rows.length, state.rows.length) : differs;
  hide(true);
  while (text.children.length > kept) text.lastElementChild.remove();
  state.rows = rows.slice(0, kept);
  append(rows.slice(kept));
}

function drawTiles(list) {
  if (tiles.childElementCount !== list.length) {
    tiles.replaceChildren(...list.map(() => {
      const tile = make("div", "mars-tile");
      const value = make("dd");
      value.append(make("b"), make("small"));
      tile.append(make("dt"), value);
      return tile;
    }));
  }
  list.forEach(([name, value, unit, help], index) => {
    const tile = tiles.children[index], [number, small] = tile.lastElementChild.children;
    tile.title = help;
    tile.firstElementChild.textContent = name;
    if (number.textContent !== value) number.textContent = value;
    small.textContent = unit;
  });
}

function mark(position) {
  text.querySelector(".tok.diverges")?.classList.remove("diverges");
  if (position !== null) text.children[position]?.classList.add("diverges");
}

function draw(value) {
  state.latest = value;
  lane.dataset.state = value.state;
  lane.setAttribute("aria-label", "Output of " + value.title);
  lane.setAttribute("aria-busy", String(value.state === "running"));
  title.textContent = value.title;
  chip.textContent = value.chip;
  note.textContent = value.note;
  [check.dataset.state, check.textContent] = value.check;
  bar.style.transform = "scaleX(" + value.progress + ")";
  drawTiles(value.tiles);
  if (value.run !== state.run) clear();
  state.run = value.run;
  if (value.whole) reconcile(value.rows);
  else if (value.start <= state.rows.length) append(value.rows.slice(state.rows.length - value.start));
  mark(value.diverges);
  text.setAttribute("aria-label", "Text of " + value.title + ". Arrow keys walk through its tokens.");
  if (!state.rows.length && !text.firstChild) text.append(make("p", "mars-empty", value.empty));
  else if (state.rows.length) text.querySelector(".mars-empty")?.remove();
}

function pieceNode(piece, name) {
  return make("code", name || "piece", piece);
}

function heading(row) {
  const outcome = OUTCOMES[row[1]];
  const head = make("div", "mars-pop-head");
  head.append(pieceNode(row[2]), make("span", "mars-pill " + outcome.name, outcome.name));
  return head;
}

function refusal(siblings) {
  const [piece, p, q] = siblings[0], more = siblings.length - 1;
  const part = document.createDocumentFragment();
  part.append("; the draft said ", pieceNode(piece, "struck"), ` (p ${p}, q ${q})`);
  if (more) part.append(` and ${more} more: `);
  siblings.slice(1).forEach(([other, otherP], index) => part.append(index ? ", " : "", pieceNode(other, "struck"), ` (p ${otherP})`));
  return part;
}

function story(row) {
  const [, outcome, , , own, refused] = row;
  const line = make("p", "mars-pop-story", OUTCOMES[outcome].meaning);
  if (refused.length) line.append(refusal(refused));
  if (own) line.append("; the target drew ", pieceNode(own, "struck"));
  return line;
}

function figures(row) {
  const list = make("dl", "mars-pop-numbers");
  FIELDS.forEach(([name, help], index) => {
    const cell = make("div");
    cell.title = help;
    cell.append(make("dt", "", name), make("dd", "", row[3][index]));
    list.append(cell);
  });
  return list;
}

function alternatives(row) {
  const [, , , , , , top, covered] = row;
  const box = make("div", "mars-pop-top");
  for (const [piece, p, width, same] of top) {
    const line = make("div", same ? "same" : "");
    const track = make("span", "track");
    track.append(make("i"));
    track.firstChild.style.width = 100 * width + "%";
    line.append(pieceNode(piece), track, make("b", "", p));
    box.append(line);
  }
  box.append(make("p", "mars-pop-covered", "Probability covered: " + covered));
  return box;
}

function place(target) {
  const outer = lane.getBoundingClientRect(), box = (target.getClientRects()[0] || target.getBoundingClientRect());
  const width = Math.min(340, outer.width - 16);
  pop.style.width = width + "px";
  const left = Math.max(8, Math.min(box.left - outer.left - 12, outer.width - width - 8));
  pop.style.left = left + "px";
  const below = box.bottom + 8 + pop.offsetHeight < window.innerHeight || box.top < pop.offsetHeight + 16;
  pop.style.top = (below ? box.bottom - outer.top + 8 : box.top - outer.top - pop.offsetHeight - 8) + "px";
}

function show(index, speak) {
  const row = state.rows[index], target = text.children[index];
  if (!row || !target) return;
  text.children[active]?.classList.remove("active");
  active = index;
  target.classList.add("active");
  pop.replaceChildren(heading(row), story(row), figures(row), alternatives(row));
  pop.hidden = false;
  place(target);
  if (speak) spoken.textContent = `${row[2]}, ${OUTCOMES[row[1]].name}, position ${index}, r ${row[3][0]}, p ${row[3][4]}`;
}

function hide(force) {
  if (pinned && !force) return;
  pinned = false;
  pop.hidden = true;
  text.children[active]?.classList.remove("active");
  active = -1;
}

function line(direction) {
  const here = text.children[active].getBoundingClientRect();
  let best = active, distance = Infinity;
  for (let i = active + direction; i >= 0 && i < state.rows.length; i += direction) {
    const box = text.children[i].getBoundingClientRect();
    const away = direction * (box.top - here.top);
    if (away > 1.8 * here.height && distance < Infinity) break;
    if (away > 4 && Math.abs(box.left - here.left) < distance) [best, distance] = [i, Math.abs(box.left - here.left)];
  }
  return best;
}

const MOVES = {
  ArrowRight: () => active + 1, ArrowLeft: () => active - 1, ArrowDown: () => line(1), ArrowUp: () => line(-1),
  Home: () => 0, End: () => state.rows.length - 1,
};

// The step of this token, for the draft tree below; only once the run has ended.
function choose(index) {
  if (state.latest.state !== "running") trigger("select", { index });
}

text.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hide(true);
  if (event.key === "Enter" && active >= 0) return choose(active);
  if (!(event.key in MOVES) || !state.rows.length || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const next = active < 0 ? (event.key === "End" ? state.rows.length - 1 : 0) : MOVES[event.key]();
  show(Math.max(0, Math.min(next, state.rows.length - 1)), true);
  text.children[active]?.scrollIntoView({ block: "nearest" });
  place(text.children[active]);
});
text.addEventListener("mouseover", (event) => {
  const target = event.target.closest(".tok");
  if (target && !pinned) show(Number(target.dataset.i));
});
text.addEventListener("click", (event) => {
  const target = event.target.closest(".tok");
  if (!target) return;
  const index = Number(target.dataset.i), again = pinned && index === active;
  hide(true);
  if (!again) { show(index); pinned = true; choose(index); }
});
lane.addEventListener("mouseleave", () => hide());
text.addEventListener("blur", () => hide());
const look = () => setTimeout(() => { follows = text.scrollTop + text.clientHeight >= text.scrollHeight - 40; }, 120);
for (const deed of ["wheel", "touchmove", "pointerup", "keyup"]) text.addEventListener(deed, look, { passive: true });
text.addEventListener("scroll", () => { if (active >= 0) place(text.children[active]); });
const jump = (event) => {
  if (!lane.isConnected) return document.removeEventListener("mars:show", jump);
  const { scope, lane: side, position } = event.detail;
  if (scope !== props.scope) return;
  hide(true);
  const target = text.children[position];
  if (!target || !state.rows.length) return;
  target.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  if (side !== props.lane) return;
  text.focus({ preventScroll: true });
  show(position, true);
  pinned = true;
};
document.addEventListener("mars:show", jump);

function update() {
  const value = JSON.parse(props.value);
  if (value.run === state.run && state.rows.length && !text.querySelector(".tok")) {
    const rows = state.rows;  // the tab was left and opened again: what arrived before is kept by the window
    state.rows = [];
    state.latest = value;
    append(rows);
  }
  draw(value);
}
watch("value", update);
update();
