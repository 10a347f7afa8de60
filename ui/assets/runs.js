// Runs side by side, the leftmost is the baseline. Everything is written with textContent; every deed is reported as {deed, run}.
const box = element.querySelector(".mars-runs"), table = box.querySelector("table"), only = box.querySelector("input");
const [words, message, csv, clear] = [".mars-runs-words", ".mars-runs-message", "a", ".mars-runs-tools button"].map((name) => box.querySelector(name));
const [head, body] = [table.querySelector("thead tr"), table.querySelector("tbody")];
const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const KINDS = { setting: "Settings", measure: "Measures", text: "Output" };

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function tool(sign, label, key, deed) {
  const button = make("button", "mars-small", sign);
  button.type = "button";
  button.title = label;
  button.dataset.key = key;
  button.setAttribute("aria-label", label);
  button.addEventListener("click", deed);
  return button;
}

function column({ id, comparison, title, name, created }, index) {
  const node = make("th"), tools = make("span", "mars-runs-head-tools");
  node.scope = "col";
  const open = tool(name, `Open the comparison of this run: ${name}`, id + "/open", () =>
    document.dispatchEvent(new CustomEvent("mars:open", { detail: { comparison } })));
  open.className = "mars-link mars-runs-name";
  node.append(make("b", "", title), open, make("small", "", SHOWN.format(new Date(created))));
  if (index) tools.append(tool("⇤", `Make ${title} the baseline`, id + "/left", () => trigger("select", { deed: "left", run: id })));
  else tools.append(make("small", "mars-runs-base", "baseline"));
  tools.append(tool("×", `Remove ${title}`, id + "/drop", () => trigger("select", { deed: "drop", run: id })));
  node.append(tools);
  return node;
}

function cell(kind, { text, delta, ratio }) {
  const node = make("td"), value = make(kind === "measure" ? "span" : "div", "mars-runs-value", text || "–");
  node.append(value);
  if (delta || ratio) node.append(make("small", "", [delta, ratio].filter(Boolean).join(" · ")));
  if (kind === "text" || text.length > 400) { value.tabIndex = 0; value.setAttribute("role", "group"); value.setAttribute("aria-label", "Text of this run"); }
  return node;
}

function row({ kind, name, help, same, cells }) {
  const node = make("tr", "mars-runs-" + kind), title = make("th", "", name);
  title.scope = "row";
  title.title = help;
  node.dataset.same = same;
  node.append(title, ...cells.map((each) => cell(kind, each)));
  return node;
}

function group(kind, rows, width) {
  const title = make("tr", "mars-runs-group"), name = make("th", "", KINDS[kind]);
  name.colSpan = width + 1;
  name.scope = "rowgroup";
  title.dataset.same = rows.every((each) => each.same);
  title.append(name);
  return [title, ...rows.map(row)];
}

// What had the focus has it again; the tool of a column that became the baseline is gone, its neighbour takes over.
function refocus(key) {
  const tools = [...table.querySelectorAll("[data-key]")], [id] = key.split("/");
  const same = tools.find((node) => node.dataset.key === key) || tools.find((node) => node.dataset.key === id + "/drop");
  (same || table.parentElement).focus();
}

function update() {
  const value = JSON.parse(props.value), width = value.columns.length;
  const key = table.contains(document.activeElement) ? document.activeElement.dataset.key : "";
  box.hidden = !width && !value.message;
  words.textContent = value.words;
  message.textContent = value.message;
  message.hidden = !value.message;
  csv.href = "downloads/runs.csv?runs=" + value.columns.map(({ id }) => id).join(",") + (value.share ? "&share=" + encodeURIComponent(value.share) : "");
  only.closest("label").hidden = width < 2;
  if (width < 2) only.checked = false;
  box.dataset.only = only.checked;
  head.replaceChildren(make("td", "", ""), ...value.columns.map(column));
  body.replaceChildren(...Object.keys(KINDS).flatMap((kind) => {
    const rows = value.rows.filter((each) => each.kind === kind);
    return rows.length ? group(kind, rows, width) : [];
  }));
  if (key) refocus(key);
}
only.addEventListener("change", () => { box.dataset.only = only.checked; });
clear.addEventListener("click", () => trigger("select", { deed: "none" }));
watch("value", update);
update();
