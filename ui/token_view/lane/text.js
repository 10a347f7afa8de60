// The text: parts of so many tokens. Of those far from what is in sight only the text is on the page, without a span a token, so that
// a text of any length is drawn, coloured and laid out anew within a frame.
const PART = 128;

const parts = () => [...text.querySelectorAll(":scope > .mars-part")];
const firstOf = (part) => PART * parts().indexOf(part);
const long = () => state.rows.length > PART;
const open = (part) => part.firstElementChild !== null;

function unfold(part) {
  if (open(part)) return;
  const first = firstOf(part);
  part.replaceChildren(
    ...state.rows.slice(first, first + PART).map((row, at) => span(row, first + at)),
  );
  Array.from(part.children, mark);
  paintPart(part, first);
}

// Of a long text, and not while something in it is read, selected or written.
function fold(part) {
  if (!long()) return;
  const writes = state.latest.state === "running" && part === parts().at(-1);
  if (open(part) && !writes && !part.querySelector(".active") && getSelection().isCollapsed)
    part.textContent = contentOf(firstOf(part));
}

const contentOf = (first) =>
  state.rows
    .slice(first, first + PART)
    .map(([content]) => content)
    .join("");

// A part comes near what is in sight, or leaves it.
const near = new IntersectionObserver(
  (seen) => {
    for (const { target, isIntersecting } of seen)
      inFrame(
        `${mounted}/${firstOf(target)}`,
        () => text.contains(target) && (isIntersecting ? unfold : fold)(target),
      );
  },
  { root: text, rootMargin: "100% 0px" },
);

// The span of a token.
function spanOf(index) {
  const part = parts()[Math.floor(index / PART)];
  if (!part || !(index < state.rows.length)) return undefined;
  unfold(part);
  return part.children[index % PART];
}
state.spanOf = spanOf;

// The last token that does not begin below a height of the text.
state.tokenAt = (height) => {
  const above = ({ offsetTop }) => offsetTop - text.firstChild.offsetTop <= height;
  const part = parts().findLast(above) ?? parts()[0];
  unfold(part);
  return Number(([...part.children].findLast(above) ?? part.firstChild).dataset.i);
};

function append(rows) {
  if (!rows.length) return;
  const before = state.rows.length,
    grows = before % PART ? parts().at(-1) : undefined;
  state.rows.push(...rows);
  if (grows) write(grows, before);
  for (
    let first = before + (grows ? PART - (before % PART) : 0);
    first < state.rows.length;
    first += PART
  ) {
    const part = make("span", "mars-part");
    text.append(part);
    near.observe(part);
    write(part, first);
  }
  if (follows)
    requestAnimationFrame(() => {
      if (state.latest.state === "running") text.scrollTop = 1e9;
    });
}

// The rows of a part from one on: as spans where it is in sight as it is written, the first one and those of a run that writes.
function write(part, from) {
  const first = firstOf(part);
  if (from > first ? open(part) : !first || !state.latest.complete) {
    const spans = state.rows.slice(from, first + PART).map((row, at) => span(row, from + at));
    spans.forEach(mark);
    part.append(...spans);
    paintPart(part, from);
  } else part.textContent = contentOf(first);
}

function clear() {
  hide(true);
  follows = true;
  rested = 0;
  state.rows = [];
  near.disconnect();
  text.replaceChildren();
}

// The whole value: what is on the page already stays, everything from the first part on that differs is drawn anew.
function reconcile(rows) {
  const same = (row, index) =>
    state.rows[index] && [0, 1, 2, 3].every((part) => state.rows[index][part] === row[part]);
  const differs = rows.findIndex((row, index) => !same(row, index));
  const unchanged = differs < 0 ? Math.min(rows.length, state.rows.length) : differs;
  if (unchanged === rows.length && unchanged === state.rows.length) return;
  hide(true);
  const kept = PART * Math.floor(unchanged / PART);
  for (const part of parts().slice(kept / PART)) {
    near.unobserve(part);
    part.remove();
  }
  state.rows = state.rows.slice(0, kept);
  append(rows.slice(kept));
}
