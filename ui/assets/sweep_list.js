// The sweeps that were run, latest first: one button each. Everything is written with textContent; a click reports the id. The one that
// is open stands in the address of the page, and what the address names is opened when the list appears.
const list = element.querySelector("ol"), empty = element.querySelector(".mars-history-empty");
const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

function make(tag, name, text) {
  const node = document.createElement(tag);
  node.className = name;
  node.textContent = text;
  return node;
}

function entry({ id, created, status, title, done, prompt, prompts }, selected) {
  const item = document.createElement("li"), button = make("button", "mars-sweep-entry", "");
  button.type = "button";
  button.setAttribute("aria-pressed", String(id === selected));
  const time = make("time", "", SHOWN.format(new Date(created)));
  time.dateTime = created;
  const text = make("span", "mars-sweep-prompt", prompt);
  text.prepend(make("small", "", prompts + ": "));
  button.append(time, make("b", "", title), text, make("span", "mars-sweep-done", done), make("span", "mars-badge " + status, status));
  button.addEventListener("click", () => trigger("select", { id }));
  item.append(button);
  return item;
}

let open = "";
function tell(selected, share) {
  if (selected === open) return;
  open = selected;
  document.dispatchEvent(new CustomEvent("mars:address", { detail: { sweep: selected, share } }));
}

function update() {
  const { rows, message, selected, share } = JSON.parse(props.value);
  list.replaceChildren(...rows.map((row) => entry(row, selected)));
  list.hidden = !rows.length;
  empty.textContent = message;
  empty.hidden = rows.length > 0;
  if (selected) tell(selected, share);
}
watch("value", update);
update();
const query = new URLSearchParams(location.search), asked = query.get("sweep");
if (asked && asked !== open) trigger("select", { id: asked, share: query.get("share") || "" });
