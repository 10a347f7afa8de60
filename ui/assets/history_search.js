// The search of History: plain fields of the browser. Options are written with textContent; a change reports all fields at once.
const form = element.querySelector("form"), clear = form.querySelector('[data-deed="clear"]');
const QUIET_MS = 250;  // after the last key
const fields = [...form.querySelectorAll("input, select")];
let waiting = 0;

const read = () => ({ ...Object.fromEntries(fields.map((field) => [field.name, field.value])), zone: new Date().getTimezoneOffset() });
function report(deed) {
  clearTimeout(waiting);
  waiting = 0;
  trigger("select", { deed, fields: read() });
}

function fill(select, options) {
  const key = JSON.stringify(options);
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  select.replaceChildren(...options.map(([value, words]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = words;
    return option;
  }));
}

form.addEventListener("submit", (event) => { event.preventDefault(); report("search"); });
form.addEventListener("input", (event) => {
  clearTimeout(waiting);
  if (event.target.type === "search") waiting = setTimeout(() => report("search"), QUIET_MS);
});
form.addEventListener("change", (event) => {
  if (event.target.type !== "search") report("search");
});
form.addEventListener("click", (event) => {
  const deed = event.target.closest("button")?.dataset.deed;
  if (deed) report(deed);
});

function update() {
  const value = JSON.parse(props.value);
  for (const field of fields) {
    if (field.tagName === "SELECT") fill(field, value.options[field.name]);
    const typing = waiting && field.type === "search";
    if (!typing && field.value !== value.fields[field.name]) field.value = value.fields[field.name];
  }
  clear.hidden = !value.searching;
}
watch("value", update);
update();
