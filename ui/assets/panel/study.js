// What panels of studies add to panel.js: the chosen row keeps its mark across updates, and what is open stands in the address of the page;
// what the address names is opened when the panel appears, else the example.
let chosen = "",
  open = "",
  first = "";

const select = (id, share = "") =>
  trigger("select", marsLatest((sent.select ??= {}), { id, share }));

function mark() {
  for (const row of box.querySelectorAll("tr[data-event]")) {
    row.classList.toggle("chosen", row.dataset.value === chosen);
    row.querySelector("button").setAttribute("aria-pressed", String(row.dataset.value === chosen));
  }
}
box.addEventListener("click", ({ target }) => {
  chosen = target.closest("tr[data-event]")?.dataset.value ?? chosen;
  mark();
});

function tell() {
  const [value] = box.querySelectorAll("[data-opened], [data-first]"),
    { opened = "", share = "" } = value?.dataset ?? {};
  if (opened && opened !== open)
    document.dispatchEvent(
      new CustomEvent("mars:address", { detail: { [CONSTANTS.address]: opened, share } }),
    );
  open = opened || open;
  if (value?.dataset.first && !first && !open && !requested) select((first = value.dataset.first));
}
const query = new URLSearchParams(location.search),
  requested = CONSTANTS.address && query.get(CONSTANTS.address);
watch("value", () => {
  mark();
  tell();
});
tell();
if (requested && requested !== open) select(requested, query.get("share") || "");
