// The studies, latest first: one button each, with how far it has come. A click reports the id. The one that is open stands in the address
// of the page, and what the address names is opened when the list appears. Everything is written with textContent.
const list = element.querySelector("ol"), empty = element.querySelector(".mars-history-empty"), command = element.querySelector("pre");
const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const WORDS = { done: "done", running: "running", stopped: "unfinished" };

function bar(share) {
  const node = make("span", "mars-quality-bar"), inside = make("i");
  inside.style.width = (100 * share).toFixed(1) + "%";
  node.append(inside);
  return node;
}

function entry({ id, created, name, tasks, state, words, share }, selected) {
  const item = make("li"), button = make("button", "mars-quality-entry");
  button.type = "button";
  button.dataset.key = id;
  button.setAttribute("aria-pressed", String(id === selected));
  const time = make("time", "", SHOWN.format(new Date(created)));
  time.dateTime = created;
  const done = make("span", "mars-quality-done", tasks);
  done.append(bar(share));
  button.append(time, make("b", "", name), done, make("span", "mars-badge " + state, state === "running" ? words : WORDS[state]));
  button.addEventListener("click", () => trigger("select", { id }));
  item.append(button);
  return item;
}

let open = "";
function tell(selected, share) {
  if (selected === open) return;
  open = selected;
  document.dispatchEvent(new CustomEvent("mars:address", { detail: { study: selected, share } }));
}

function update() {
  const value = JSON.parse(props.value);
  const key = list.contains(document.activeElement) ? document.activeElement.dataset.key : "";
  command.textContent = value.command;
  command.hidden = !value.command;
  list.replaceChildren(...value.rows.map((row) => entry(row, value.selected)));
  if (key) [...list.querySelectorAll("button")].find((node) => node.dataset.key === key)?.focus({ preventScroll: true });
  list.hidden = !value.rows.length;
  empty.textContent = value.message;
  empty.hidden = !value.message;
  if (value.selected) tell(value.selected, value.share);
}
watch("value", update);
update();
const query = new URLSearchParams(location.search), asked = query.get("study");
if (asked && asked !== open) trigger("select", { id: asked, share: query.get("share") || "" });
