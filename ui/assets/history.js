// The saved comparisons, latest first: one button a row. Everything is written with textContent; a click reports the id.
const list = element.querySelector("ol"), empty = element.querySelector("p");
const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

function make(tag, name, text) {
  const node = document.createElement(tag);
  node.className = name;
  node.textContent = text;
  return node;
}

function entry({ id, created, prompt, lanes, ratio, status, selected }) {
  const item = document.createElement("li"), button = make("button", "mars-history-row", "");
  button.type = "button";
  button.dataset.id = id;
  button.setAttribute("aria-pressed", String(selected));
  const time = make("time", "", SHOWN.format(new Date(created)));
  time.dateTime = created;
  const runs = make("span", "mars-history-runs", "");
  for (const lane of lanes) {
    const run = make("span", "mars-history-run", "");
    run.append(make("b", "", lane.label), make("small", "", lane.numbers));
    runs.append(run);
  }
  button.append(time, make("span", "mars-history-prompt", prompt), runs, make("span", "mars-history-ratio", ratio),
    make("span", "mars-badge " + status, status));
  button.addEventListener("click", () => trigger("select", { id }));
  item.append(button);
  return item;
}

function update() {
  const { rows, message } = JSON.parse(props.value);
  list.replaceChildren(...rows.map(entry));
  empty.textContent = message;
  empty.hidden = rows.length > 0;
}
watch("value", update);
update();
