// How the text is read and coloured: choosers, the legend with the ends of the scale, and the counts at another θ.
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
  reading.value = chosen.reading;
  quantity.disabled = granularity.disabled = chosen.reading !== "tokens";
  quantity.value = chosen.quantity;
  granularity.value = chosen.granularity;
  at("each").hidden = ["outcome", "whatif"].includes(chosen.quantity);
  at("reset").hidden = chosen.quantity === "outcome";
  outcomes.checked = chosen.outcomes;
  linked.checked = chosen.linked;
  theta.value = chosen.theta;
  output.textContent = "θ = " + chosen.theta;
  theta.setAttribute("aria-valuetext", output.textContent);
  legend.replaceChildren(...key());
  box.querySelector(".mars-legend").replaceChildren(...meanings());
  at("counts").replaceChildren(...counts());
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

function key() {
  const scale = QUANTITIES[chosen.quantity];
  if (scale.key === "outcome") return [];
  if (scale.key === "whatif")
    return [swatch("kept", "would be kept"), swatch("refused", "would be rejected")];
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

// Of each lane how many drafts MARS at θ would keep, and in how many passes it would write as many tokens.
function counts() {
  return readable().map((lane) => {
    const now = keptAt(lane.rows, lane.latest.judged, chosen.theta),
      part = make("span"),
      same = !now.more && !now.fewer;
    part.append(
      make("b", "", lane.latest.title),
      now.judged
        ? ` would keep ${count(now.kept)} of ${count(now.judged)} drafts` +
            (same ? " (as it ran)" : ` (+${count(now.more)} −${count(now.fewer)})`) +
            `, ${same ? count(now.steps) : "about " + count(Math.round(now.passes))} passes` +
            (same ? "" : ` instead of ${count(now.steps)}`)
        : " judged no draft",
    );
    part.title = `Of the drafts that this run judged, MARS at θ = ${chosen.theta} would keep so many: + refused by the run, − kept by it. Passes: for as many tokens, if at each depth of a draft the same share were kept.`;
    return part;
  });
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
    reading: chosen.reading,
    outcomes: chosen.outcomes,
    linked: chosen.linked,
    theta: ruleTheta ?? PLAIN_VIEW.theta,
    runs,
  });
}

for (const { key: name, title } of props.quantities) {
  const option = make("option", "", title);
  option.value = name;
  quantity.append(option);
}
reading.addEventListener("change", () => choose({ reading: reading.value }));
quantity.addEventListener("change", () => choose({ quantity: quantity.value }));
granularity.addEventListener("change", () => choose({ granularity: granularity.value }));
outcomes.addEventListener("change", () => {
  remembered("mars-outcomes", outcomes.checked);
  choose({ outcomes: outcomes.checked });
});
linked.addEventListener("change", () => {
  remembered("mars-linked", linked.checked);
  choose({ linked: linked.checked });
});
theta.addEventListener("input", () => choose({ theta: Number(theta.value), quantity: "whatif" }));
at("reset").addEventListener("click", reset);
at("run").addEventListener("click", ({ detail }) => {
  if (detail < 2) trigger("select", { theta: chosen.theta });
}); // not twice for a double click

const goesOn = ({ latest }) => latest.continues || latest.state === "example";

// Only what has ended can be foreseen; nothing is run from what can only be read, such as an earlier turn.
function offer() {
  theta.disabled = at("run").disabled = busy() || !readable().length;
  at("run").hidden = props.runs === false || (!at("run").disabled && !readable().some(goesOn));
  adopt();
}
listen("mars:theta", ({ theta: level }) => choose({ theta: level, quantity: "whatif" }));
listen("mars:read", () => choose({ reading: "tokens" }));
// A lane may have its value before it is shown.
listen("mars:lane", () => inFrame(props.scope + "/view", offer));
new ResizeObserver(() => {
  if (theta.disabled) offer();
}).observe(box);
