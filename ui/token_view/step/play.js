// Steps one after the other: the drafts appear, the pass runs over them, the verdicts show, the text gains.
const PHASES = [900, 700, 900, 1600]; // milliseconds of: drafted, in the pass, judged, written
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
let timer = 0;

function phase(number) {
  box.dataset.phase = number;
}

function halt() {
  clearTimeout(timer);
  timer = 0;
  phase(3);
  at("play").textContent = "Play";
}

function advance(number) {
  if (!box.isConnected) return halt();
  phase(number);
  timer = setTimeout(() => {
    if (number < 3) return advance(number + 1);
    if (now === steps.length - 1) return halt();
    now += 1;
    drawStep();
    advance(0);
  }, PHASES[number]);
}

function play() {
  if (timer) return halt();
  if (now === steps.length - 1) now = 0;
  drawStep();
  at("play").textContent = "Pause";
  advance(still() ? 3 : 0);
}

function go(to) {
  halt();
  now = Math.max(0, Math.min(to, steps.length - 1));
  drawStep();
}

// The run whose steps are shown: the last one that relaxed a token, at that step; else the last one with drafts.
function offer() {
  const drafted = readable().filter((lane) =>
    lane.latest.drafts?.some(([pieces]) => pieces.length),
  );
  box.hidden = busy() || !drafted.length;
  if (box.hidden) return halt();
  const relaxes = (lane) => lane.rows.some((row) => outcomeOf(row) === "relaxed");
  chooser.replaceChildren(...drafted.map((lane) => new Option(lane.latest.title, lane.run)));
  choose(
    drafted.find((lane) => lane === run && steps.length) ||
      drafted.findLast(relaxes) ||
      drafted.at(-1),
  );
}

function choose(lane) {
  const same = lane === run && steps.length && steps.run === lane.run;
  run = lane;
  chooser.value = lane.run;
  if (same) return;
  steps = stepsOf(lane);
  steps.run = lane.run;
  const shows =
    (name) =>
    ({ rows }) =>
      rows.some((row) => outcomeOf(row) === name);
  go(
    Math.max(
      0,
      [steps.findIndex(shows("relaxed")), steps.findIndex(shows("recovered"))].find(
        (i) => i >= 0,
      ) ?? 0,
    ),
  );
}

chooser.addEventListener("change", () =>
  choose(readable().find((lane) => lane.run === chooser.value)),
);
at("back").addEventListener("click", () => go(now - 1));
at("next").addEventListener("click", () => go(now + 1));
at("play").addEventListener("click", play);
box.addEventListener("keydown", ({ key, target }) => {
  if (target.matches("input, select")) return;
  if (key === "ArrowLeft") go(now - 1);
  if (key === "ArrowRight") go(now + 1);
});
theta.addEventListener("input", () => tell("mars:theta", { theta: Number(theta.value) })); // to the bar above
listen("mars:view", () => steps.length && !box.hidden && decide());
listen("mars:pinned", ({ lane, index }) => {
  const chosen = memory[props.scope + "/" + lane];
  if (box.hidden || !chosen?.latest.drafts?.length) return;
  choose(chosen);
  const step = steps.findIndex(({ first, rows }) => index >= first && index < first + rows.length);
  if (step >= 0) go(step);
});
listen("mars:play", () => still() || timer || box.hidden || play());
const look = () => inFrame(props.scope + "/step", offer);
listen("mars:lane", look);
look();
