// One track a lane: τ as a line, the spans below it. A click on a span brings its beginning into sight in all texts.
const SVG = "http://www.w3.org/2000/svg";
const at = (name) => box.querySelector(name);

function line(points, across, high) {
  const svg = document.createElementNS(SVG, "svg"),
    path = document.createElementNS(SVG, "polyline");
  svg.setAttribute("viewBox", `0 0 ${across} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute(
    "points",
    points.map(([x, y]) => `${x},${98 - (96 * (y - 1)) / (high - 1)}`).join(" "),
  );
  svg.append(path);
  return svg;
}

function spanButton([kind, first, after], side, across, index) {
  const button = make("button", "mars-b-span " + kind),
    words = `Positions ${count(first)} to ${count(after - 1)}: ${KINDS[kind] || "the text"}`;
  button.type = "button";
  button.tabIndex = index ? -1 : 0; // the arrow keys go on
  button.title = words;
  button.setAttribute("aria-label", words);
  button.style.cssText = `left:${(100 * first) / across}%;width:${(100 * (after - first)) / across}%`;
  button.dataset.position = first;
  button.dataset.lane = side;
  return button;
}

function track(lane, pace, across, high) {
  const row = make("div", "mars-b-track"),
    spans = make("div", "mars-b-spans"),
    done = ended(lane) && lane.rows.length > 0;
  const last = pace.length ? lane.rows.length / pace.length : NaN;
  row.style.setProperty("--lane", `var(--mars-lane-${lane.side})`);
  spans.setAttribute("role", "group");
  spans.setAttribute("aria-label", lane.latest.title);
  if (done)
    spans.append(
      ...(pace.length ? [line(pace, across, high)] : []),
      ...spansOf(lane).map((span, index) => spanButton(span, lane.side, across, index)),
    );
  row.append(
    make("span", "", lane.latest.title),
    spans,
    make("small", "", done ? "τ " + number(last) : ""),
  );
  return row;
}

function draw() {
  const all = lanes();
  if (busy() && box.querySelector(".mars-b-track")) return box.classList.add("waits");
  const paces = all.map(paceOf),
    across = Math.max(1, ...all.map(({ rows }) => rows.length)),
    high = Math.max(2, ...paces.flat().map(([, mean]) => mean));
  box.classList.remove("waits");
  at(".mars-b-tracks").replaceChildren(
    ...all.map((lane, index) => track(lane, paces[index], across, high)),
  );
  const present = Object.keys(KINDS).filter((kind) => at(".mars-b-span." + kind));
  at(".mars-legend").replaceChildren(
    make("li", "", `line: τ of the last ${STEPS} steps`),
    ...present.map((kind) => {
      const item = make("li");
      item.append(make("i", kind), kind === "met" ? "met again" : kind);
      item.title = KINDS[kind];
      return item;
    }),
  );
}

box.addEventListener("click", ({ target }) => {
  const { lane, position } = target.closest(".mars-b-span")?.dataset || {};
  if (!position) return;
  const place = { lane: Number(lane), position: Number(position) };
  tell("mars:show", { ...place, quiet: true });
  tell("mars:point", place);
});
box.addEventListener("keydown", ({ key, target }) => {
  const step = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[key];
  if (step && target.matches(".mars-b-span")) target[step]?.focus?.();
});
const redraw = () => inFrame(props.scope + "/ribbon", draw);
listen("mars:lane", redraw);
redraw();
