// The settings of a run: shows the fields that Python wrote and keeps their values as the component's value (ui/settings/panel.py).
// morph.js comes before.
const box = element.firstElementChild;
const edited = new Map(); // id of a field → when a visitor changed it, for what comes back meanwhile
let unanswered = []; // changes on which other fields depend: an event may take the place of one that waits
const asked = {}; // the data of what is asked for
const arranged = {}; // the data of what is done with the lanes
let arrangedAt = 0; // when lanes were last arranged; 0: that was answered
const PATIENCE = 10000; // milliseconds for such an answer
let now = 0,
  newest = 0; // newest: of what is shown; without a time come values that answer nothing, as a stored form

const laneOf = (node) => node.closest("[data-lane]");
const inputs = (root) =>
  [...root.querySelectorAll("[data-name]")].filter(
    (field) => laneOf(field) === (root === box ? null : root),
  );

function collect(root) {
  const values = {};
  for (const field of inputs(root)) {
    const {
      dataset: { name },
      type,
      value,
      checked,
    } = field;
    if ("many" in field.dataset)
      values[name] = [...(values[name] || []), ...(checked ? [value] : [])];
    else if (type === "radio") values[name] = checked ? value : values[name];
    else
      values[name] =
        type === "checkbox"
          ? checked
          : type === "number"
            ? value === ""
              ? null
              : field.valueAsNumber
            : value;
  }
  return values;
}

function keep() {
  const lanes = [...box.querySelectorAll("[data-lane]")].map(collect);
  box.values = { ...collect(box), ...(lanes.length ? { lanes } : {}), at: now };
  props.value = JSON.stringify({ values: box.values });
  document.dispatchEvent(new Event("mars:settings"));
}

function redraw(changed, node) {
  const lane = laneOf(node);
  now += 1;
  keep();
  unanswered.push({ changed, at: now, ...(lane ? { lane: Number(lane.dataset.lane) } : {}) });
  if (!arrangedAt) ask();
}

const ask = () => trigger("select", marsLatest(asked, { changes: unanswered }));

// Until this is answered nothing else is asked: it would be with the lanes of before, and its answer, which comes later, would put them back.
function arrange(data) {
  if (data.do !== "link") {
    const at = (arrangedAt = now += 1);
    setTimeout(() => settle(at), PATIENCE);
  }
  keep();
  trigger("input", marsLatest(arranged, data));
}

function settle(at) {
  if (!arrangedAt || at < arrangedAt) return;
  arrangedAt = 0;
  if (unanswered.length) ask();
}

const state = (field) =>
  ["radio", "checkbox"].includes(field.type) ? ["checked", field.checked] : ["value", field.value];
const keyOf = (field) => field.id || `${field.name}/${field.value}`;

// What waits for the models is asked for again while it is in sight, ever more seldom.
const SOON = 1000,
  SELDOM = 60000;
let pause = SOON;

function look() {
  const waits = box.querySelector("[data-waits]")?.checkVisibility();
  if (!element.isConnected) return;
  if (waits) redraw("sight", box);
  pause = waits ? Math.min(2 * pause, SELDOM) : SOON;
  setTimeout(look, pause);
}

function update() {
  if (!props.value) return;
  const { html, at } = JSON.parse(props.value);
  if (html === undefined) return;
  if (at !== null && at < newest) return keep();
  newest = at ?? now + 1;
  now = Math.max(now, newest); // after a reload comes a form with a later time
  unanswered = unanswered.filter((each) => at !== null && each.at > at);
  for (const [key, when] of edited) if (at === null || when <= at) edited.delete(key);
  const mine = new Map(
    [...box.querySelectorAll("[data-name]")]
      .filter((field) => edited.has(keyOf(field)))
      .map((field) => [keyOf(field), state(field)]),
  );
  const content = document.createElement("template");
  content.innerHTML = html; // escaped by ui/settings/panel.py
  note.remove(); // which is no field
  children(box, content.content);
  for (const field of box.querySelectorAll("[data-name]"))
    if (mine.has(keyOf(field))) {
      const [name, value] = mine.get(keyOf(field));
      field[name] = value;
    }
  mark();
  offer();
  restore();
  keep(); // with `at`: what is asked for from here on does not undo what is changed meanwhile
  settle(newest);
}

box.addEventListener("input", ({ target }) => {
  if (target.matches(".mars-server-key")) lock(target);
  if (target.matches(".mars-server-answer")) answered(laneOf(target), target.value);
  if (target.dataset.name === "server") restore();
  edited.set(keyOf(target), ++now);
  keep();
  if (target.dataset.redraw === "live") redraw(target.dataset.name, target);
});
// Models of one's own that were described here before, kept by the browser: chips that fill the field that is in hand if it is empty, else the target.
const RECENT = "mars-models",
  MOST = 5;
let filled = "target";
function offer() {
  const place = box.querySelector("[data-recent]");
  if (!place) return;
  const { recent } = place.dataset;
  const known = [...new Set([recent, ...(marsStorage.read(RECENT) || [])])];
  const latest = known.filter(Boolean).slice(0, MOST);
  if (recent) marsStorage.write(RECENT, latest);
  for (const name of latest) {
    const chip = document.createElement("button");
    Object.assign(chip, { type: "button", className: "mars-small", title: name });
    chip.dataset.fill = name;
    chip.textContent = name.split("/").slice(-2).join("/");
    place.append(chip);
  }
}
function fill(text, into) {
  const of = (name) => box.querySelector(`[data-name="${name}"]`);
  const field = of(into || (of(filled).value ? "target" : filled));
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.dispatchEvent(new Event("change", { bubbles: true }));
}
box.addEventListener("focusin", ({ target: { dataset } }) => {
  if (["target", "draft", "head"].includes(dataset.name)) filled = dataset.name;
});

// A file that is dropped on a field of models, or beside them: a browser tells its name and size, by which the program finds it.
for (const type of ["dragover", "drop"])
  box.addEventListener(type, (event) => {
    const models = [
        ...box.querySelectorAll('[data-name="target"], [data-name="draft"], [data-name="head"]'),
      ],
      field = models.find((each) => each === event.target) ?? models[0];
    if (!field?.checkVisibility() || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault(); // else the browser opens the file
    const [file] = event.dataTransfer.files; // none before it is dropped
    if (type === "drop" && file)
      redraw(`dropped ${field.dataset.name} ${file.size} ${file.name}`, box);
  });

// Keys of servers, kept by the browser, each for its address alone, and saved answers, pasted or of a file and forgotten with the
// page: no values of the panel, which has of an answer only a name, that goes where its lane goes.
const KEYS = "mars-server-keys";
let unkept = {}; // where the browser keeps nothing
const keys = () => marsStorage.read(KEYS) || unkept;
const answers = {};
function held(lane) {
  const of = (name) => lane.querySelector(`[data-name="${name}"]`)?.value.trim() || "";
  const address = of("server");
  return { address, key: keys()[address] || "", answer: answers[of("answer")] || "" };
}
box.beside = () =>
  [...box.querySelectorAll("[data-lane]")].map((lane) => Object.values(held(lane)));
function restore() {
  for (const lane of box.querySelectorAll("[data-lane]:has(.mars-server-key)")) {
    const { address, ...wanted } = held(lane);
    for (const [name, value] of Object.entries(wanted)) {
      const field = lane.querySelector(`.mars-server-${name}`);
      if (field.value !== value) field.value = value;
      field.disabled = name === "key" && !address; // without an address no key is kept
    }
  }
}
function lock(field) {
  const { address } = held(laneOf(field));
  const { [address]: _, ...others } = keys();
  const key = field.value.trim();
  unkept = key ? { ...others, [address]: key } : others;
  marsStorage.write(KEYS, unkept);
  restore();
}
function answered(lane, text) {
  const name = lane.querySelector('[data-name="answer"]');
  name.value ||= Math.random();
  answers[name.value] = text;
  edited.set(keyOf(name), ++now);
  keep();
  restore();
}
const MOST_READ = 8 * 2 ** 20; // bytes: a file with more than may be pasted is refused, not cut
async function paste(chosen) {
  const [file] = chosen.files;
  if (file) answered(laneOf(chosen), await file.slice(0, MOST_READ).text());
  chosen.value = "";
}

box.addEventListener("change", ({ target }) => {
  if (target.matches(".mars-server-file")) paste(target);
  if ("redraw" in target.dataset && target.dataset.redraw !== "live")
    redraw(target.dataset.name, target);
});
box.addEventListener(
  "toggle",
  ({ target }) => {
    if (target.dataset.redraw) redraw(target.dataset.redraw, target);
  },
  true,
);
box.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button?.dataset.fill) fill(button.dataset.fill, button.dataset.into);
  else if (button?.dataset.do) {
    const lane = Number(laneOf(button)?.dataset.lane ?? -1);
    arrange({ do: button.dataset.do, lane });
  }
});
if (CONSTANTS.panel === "compare-settings") window.marsEntered = () => props.value; // for assets/address.js
watch("value", update);
update();
restore();
setTimeout(look, SOON);
