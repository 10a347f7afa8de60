// Saved views of History: searches that this browser keeps under the words of their choosers. panel.js comes before.
const VIEWS = "mars-views";
const bar = document.createElement("div");
bar.className = "mars-views";
element.append(bar);

const saved = () => marsStorage.read(VIEWS) || {};
function keep(views) {
  marsStorage.write(VIEWS, views);
  list();
}
function button(text, label, action) {
  const made = Object.assign(document.createElement("button"), {
    type: "button",
    textContent: text,
  });
  made.className = "mars-small";
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

// What the search asks for, in words.
function words() {
  const fields = [...box.querySelectorAll("input, select")].filter((field) => field.value);
  const texts = fields.map((field) => field.selectedOptions?.[0].textContent ?? field.value);
  return texts.join(", ") || "All comparisons";
}
function list() {
  const views = saved();
  const shown = Object.entries(views).flatMap(([name, search]) => [
    button(name, `Show the saved view ${name}`, () => {
      history.pushState(history.state, "", location.pathname + search);
      dispatchEvent(new PopStateEvent("popstate"));
    }),
    button("×", `Remove the saved view ${name}`, () => {
      delete views[name];
      keep(views);
    }),
  ]);
  const save = button("Save this view", "Save this view in this browser", () =>
    keep({ ...saved(), [words()]: location.search }),
  );
  bar.replaceChildren(...shown, save);
}
list();
