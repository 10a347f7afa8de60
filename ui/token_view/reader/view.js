// How the text is coloured: choosers, the legend with the ends of the scale, and the counts at another θ.
let chosen = { ...(views[props.scope] || PLAIN_VIEW) };
let runs = chosen.runs; // whose θ the slider began with
const label = (value) => number(value).replace(/\.0+$/, "");

function choose(change) {
  chosen = { ...chosen, ...change };
  views[props.scope] = chosen;
  tell("mars:view", chosen);
  draw();
}

function draw() {
  quantity.value = chosen.quantity;
  granularity.value = chosen.granularity;
  at("each").hidden = ["outcome", "whatif"].includes(chosen.quantity);
  at("reset").hidden = chosen.quantity === "outcome";
  outcomes.checked = chosen.outcomes;
  theta.value = chosen.theta;
  output.textContent = "θ = " + chosen.theta;
  theta.setAttribute("aria-valuetext", output.textContent);
  legend.replaceChildren(...key());
  box.querySelector(".mars-legend").replaceChildren(...meanings());
  at("meaning").textContent = meaning();
}

// What the marks in the texts mean: of the outcomes only the relaxed one, unless all are shown.
function meanings() {
  const named = OUTCOMES.filter(({ name }) => chosen.outcomes || name === "relaxed");
  return [...named, { name: "shared", meaning: "as in the baseline" }].map(({ name, meaning }) => {
    const item = make("li");
    item.append(make("span", "tok w " + name, name), " " + meaning.replace(/^given: /, ""));
    return item;
  });
}

// As mars_core/margins.py says it of a pair, at the positions of these runs.
function meaning() {
  const rows = readable()
    .flatMap((lane) => lane.rows)
    .filter((row) => Number.isFinite(fieldOf(row, "z₁")));
  if (rows.length < 2) return "";
  const bars = rows
    .map((row) => Math.exp(-Math.max(0, (1 - chosen.theta) * fieldOf(row, "z₁"))))
    .sort((one, other) => one - other);
  const quantile = (q) => {
    const position = q * (bars.length - 1),
      low = Math.floor(position);
    const value =
      bars[low] + (position - low) * (bars[Math.min(low + 1, bars.length - 1)] - bars[low]);
    return Number(Number(value.toFixed(3)).toPrecision(2));
  };
  const near = Math.round(
    (100 * rows.filter((row) => fieldOf(row, "r") > chosen.theta).length) / rows.length,
  );
  const median = quantile(0.5),
    tenth = quantile(0.1);
  const spread =
    tenth === median ? "everywhere" : `in the median, ${tenth} at the tenth percentile`;
  return `In these runs θ = ${chosen.theta} calls ${near} % of ${count(rows.length)} positions near ties: it keeps the runner-up above p₂/p₁ = ${median} (${spread}).`;
}

function key() {
  const scale = QUANTITIES[chosen.quantity];
  if (scale.key === "outcome") return [];
  if (scale.key === "whatif") return foreseen();
  const strip = make("span", "mars-r-scale " + (scale.key === "r" ? "parted" : "plain"));
  const words =
    chosen.granularity === "token"
      ? ""
      : chosen.granularity === "word"
        ? `${scale.most} of each word`
        : "mean of each sentence";
  if (scale.key === "r") {
    const mark = make("i", "mars-r-mark");
    strip.style.setProperty("--mars-at", 100 * chosen.theta + "%");
    mark.append(make("b", "", "θ " + chosen.theta));
    strip.append(mark);
  }
  const [from, to] =
    scale.key === "r" ? ["≤ 0", "1"] : [end(scale, scale.pale), end(scale, scale.strong)];
  return [
    make("span", "mars-r-end", from),
    strip,
    make("span", "mars-r-end", to),
    ...(words ? [make("span", "mars-r-words", words)] : []),
  ];
}

const end = (scale, value) => (value === scale.open ? "≥ " : "") + label(value);

function foreseen() {
  const parts = [swatch("kept", "would be kept"), swatch("refused", "would be rejected")];
  for (const lane of readable()) {
    const { judged, kept, more, fewer } = countKept(
      lane.rows,
      lane.latest.judged || "",
      chosen.theta,
    );
    const part = make("span", "mars-r-count");
    part.append(
      make("b", "", "Drafts of " + lane.latest.title),
      judged
        ? ` judged by MARS at θ = ${chosen.theta}: ${count(kept)} of ${count(judged)} kept`
        : " none",
    );
    if (judged)
      part.append(
        make("small", "", more || fewer ? ` (+${count(more)} −${count(fewer)})` : " (as it ran)"),
      );
    part.title = `Of the drafts that this run judged, MARS at θ = ${chosen.theta} would keep so many: + refused by the run, − kept by it.`;
    parts.push(part);
  }
  return parts;
}

function swatch(name, words) {
  const part = make("span", "mars-r-swatch");
  part.append(make("i", name), words);
  return part;
}

// The θ of these runs, where one has one: the slider begins there.
function adopt() {
  const all = lanes(),
    ran = all.map((lane) => lane.run).join(" ");
  const ruleTheta = all.map((lane) => lane.latest.theta).find((value) => typeof value === "number");
  if (ran !== runs && ruleTheta !== undefined) {
    runs = ran;
    choose({ theta: ruleTheta, runs });
  } else draw();
}

function reset() {
  const ruleTheta = readable()
    .map((lane) => lane.latest.theta)
    .find((value) => typeof value === "number");
  choose({
    ...PLAIN_VIEW,
    outcomes: chosen.outcomes,
    theta: ruleTheta ?? PLAIN_VIEW.theta,
    runs,
  });
}

for (const { key: name, title } of props.quantities) {
  const option = make("option", "", title);
  option.value = name;
  quantity.append(option);
}
quantity.addEventListener("change", () => choose({ quantity: quantity.value }));
granularity.addEventListener("change", () => choose({ granularity: granularity.value }));
outcomes.addEventListener("change", () => {
  remembered("mars-outcomes", outcomes.checked);
  choose({ outcomes: outcomes.checked });
});
theta.addEventListener("input", () => choose({ theta: Number(theta.value), quantity: "whatif" }));
at("reset").addEventListener("click", reset);
at("run").hidden = props.runs === false;
at("run").addEventListener("click", ({ detail }) => {
  if (detail < 2) trigger("select", { theta: chosen.theta });
}); // not twice for a double click

// Only what has ended can be foreseen; its place is kept meanwhile, so that nothing moves.
function offer() {
  at("ended").classList.toggle("ready", readable().length > 0 && !busy());
  adopt();
}
listen("mars:theta", ({ theta: level }) => choose({ theta: level, quantity: "whatif" }));
// A lane may have its value before it is shown.
listen("mars:lane", () => requestAnimationFrame(offer));
new ResizeObserver(() => {
  if (!at("ended").classList.contains("ready")) offer();
}).observe(box);
