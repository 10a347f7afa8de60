// The saved comparisons: a button opens one, a box beside each run chooses it for the table of runs. Everything is written with
// textContent; every deed is reported as {deed, …}.
const at = (selector) => element.querySelector(selector);
const list = at("ol"), notice = at(".mars-history-notice"), empty = at(".mars-history-empty"), pages = at(".mars-pages");
const [undo, clear] = [notice.querySelector("button"), empty.querySelector("button")];
const [previous, next] = pages.querySelectorAll("button");
const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
let value = { rows: [] };

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function run(row, lane) {
  const node = make("label", "mars-history-run"), box = make("input");
  box.type = "checkbox";
  box.checked = lane.chosen;
  box.dataset.key = lane.id;
  box.setAttribute("aria-label", `Compare this run: ${lane.label}, ${lane.numbers}, of ${row.name || row.prompt}`);
  box.addEventListener("change", () => trigger("select", { deed: box.checked ? "choose" : "drop", run: lane.id }));
  const words = make("span");
  words.append(make("b", "", lane.label), make("small", "", lane.numbers));
  node.append(box, words);
  return node;
}

function entry(row) {
  const item = make("li", "mars-history-item"), button = make("button", "mars-history-row");
  item.dataset.selected = row.selected;
  button.type = "button";
  button.dataset.key = row.id;
  button.setAttribute("aria-pressed", String(row.selected));
  const time = make("time", "", SHOWN.format(new Date(row.created)));
  time.dateTime = row.created;
  const words = make("span", "mars-history-words");
  if (row.name) words.append(make("b", "mars-history-name", row.name));
  words.append(make("span", "mars-history-prompt", row.prompt));
  if (row.tags.length || row.source) {
    const tags = make("span", "mars-history-tags");
    if (row.source) tags.append(make("i", "mars-tag", row.source));
    tags.append(...row.tags.map((tag) => make("span", "mars-tag", tag)));
    words.append(tags);
  }
  button.append(time, words);
  button.addEventListener("click", () => trigger("select", { deed: "open", id: row.id }));
  const runs = make("div", "mars-history-runs");
  runs.append(...row.lanes.map((lane) => run(row, lane)));
  item.append(button, runs, make("span", "mars-history-ratio", row.ratio), make("span", "mars-badge " + row.status, row.status));
  return item;
}

// What had the focus has it again after the rows were drawn anew.
function keepingFocus(draw) {
  const key = list.contains(document.activeElement) ? document.activeElement.dataset.key : "";
  draw();
  if (key) [...list.querySelectorAll("[data-key]")].find((node) => node.dataset.key === key)?.focus({ preventScroll: true });
}

undo.addEventListener("click", () => trigger("select", { deed: "undo", id: value.notice.undo }));
clear.addEventListener("click", () => trigger("select", { deed: "clear" }));
previous.addEventListener("click", () => trigger("select", { deed: "page", page: value.page - 1 }));
next.addEventListener("click", () => trigger("select", { deed: "page", page: value.page + 1 }));

// What was opened comes into sight, once.
function follow(selected) {
  if (selected && selected !== window.marsOpened) setTimeout(() => {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    document.querySelector("#history-open")?.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }, 80);
  window.marsOpened = selected;
}

function update() {
  value = JSON.parse(props.value);
  keepingFocus(() => list.replaceChildren(...value.rows.map(entry)));
  notice.hidden = !value.notice.text;
  notice.firstElementChild.textContent = value.notice.text;
  undo.hidden = !value.notice.undo;
  if (value.notice.undo) setTimeout(() => notice.scrollIntoView({ block: "center" }), 80);
  empty.hidden = value.rows.length > 0;
  empty.firstElementChild.textContent = value.message;
  clear.hidden = !value.searching;
  pages.lastElementChild.textContent = value.words;
  previous.disabled = value.page <= 1;
  next.disabled = value.page >= value.pages;
  follow(value.selected);
  previous.hidden = next.hidden = value.pages <= 1;
}
watch("value", update);
update();
setTimeout(() => document.dispatchEvent(new CustomEvent("mars:history")), 100);  // the tab is there
