// The replay: all runs from their recorded step times on one clock. At its end everything is shown again.
let playing = false,
  t = null,
  before = 0;
const totalTime = () => Math.max(0, ...readable().map((lane) => lane.latest.times?.at(-1) ?? 0));

function seek(to) {
  t = to;
  tell("mars:clock", { t });
  const all = totalTime(),
    now = t ?? all;
  scrub.max = all;
  scrub.value = now;
  time.textContent = `${duration(now)} of ${duration(all)}`;
  scrub.setAttribute("aria-valuetext", time.textContent);
  play.textContent = playing ? "Pause" : t === null ? "Replay" : "Play";
}

function tick(now) {
  if (!playing) return;
  const next = t + ((now - before) / 1000) * Number(speed.value);
  before = now;
  if (next >= totalTime()) stop();
  else seek(next);
  if (playing) requestAnimationFrame(tick);
}

function start() {
  playing = true;
  before = performance.now();
  seek(t ?? 0);
  requestAnimationFrame(tick);
}

function halt(at) {
  playing = false;
  seek(at);
}
const stop = () => halt(null);

// Only what has ended can be foreseen and replayed; its place is kept meanwhile, so that nothing moves.
function offer() {
  const ready = readable().length > 0 && !busy();
  if (!ready && t !== null) stop();
  at("ended").classList.toggle("ready", ready);
  if (ready) seek(null);
  adopt();
}

play.addEventListener("click", () => (playing ? halt(t) : start()));
scrub.addEventListener("input", () => {
  const to = Number(scrub.value);
  if (to >= totalTime()) return stop();
  seek(to);
});
speed.value = "1";
// A lane may have its value before it is shown.
listen("mars:lane", () => requestAnimationFrame(offer));
new ResizeObserver(() => {
  if (!at("ended").classList.contains("ready")) offer();
}).observe(box);
listen("mars:clock", (clock) => {
  if (clock.t === null && t !== null) stop();
});
offer();
