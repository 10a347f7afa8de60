// The pairs of the chosen setting; each opens in History (mars:open). Everything is written with textContent.
const box = element.querySelector(".mars-sweep-pairs"), title = box.querySelector("h2"), note = box.querySelector("p");
const head = box.querySelector("thead tr"), body = box.querySelector("tbody");

function make(tag, text) {
  const node = document.createElement(tag);
  node.textContent = text;
  return node;
}

function line({ comparison, prompt, seed, speedup, differs, strict, rule }, scored) {
  const row = document.createElement("tr"), first = make("th", ""), open = make("button", prompt), last = make("td", "");
  first.scope = "row";
  open.type = "button";
  open.title = "Open this pair in History";
  open.addEventListener("click", () => document.dispatchEvent(new CustomEvent("mars:open", { detail: { comparison } })));
  first.append(open);
  last.append(make("code", comparison));
  row.append(first, make("td", seed), make("td", speedup), make("td", differs), ...(scored ? [make("td", strict), make("td", rule)] : []), last);
  return row;
}

function update() {
  const value = JSON.parse(props.value);
  box.hidden = !value.title;
  title.textContent = value.title;
  note.textContent = value.note || "Choose a pair to open it in History.";
  const heads = ["Prompt", "Seed", "Speed-up", "Differs", ...(value.scored ? ["Strict", "Rule"] : []), "Comparison"];
  head.replaceChildren(...heads.map((text) => Object.assign(make("th", text), { scope: "col" })));
  body.replaceChildren(...value.rows.map((row) => line(row, value.scored)));
}
watch("value", update);
update();
