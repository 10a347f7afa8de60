// The top of the page: device, once the server knows it, and the switch between light and dark, kept by the browser.
const update = () => {
  element.querySelector(".mars-chip").textContent = props.value;
};
watch("value", update);
update();
const button = element.querySelector(".mars-mode");
const isDark = () => document.body.classList.contains("dark");
const stored = marsStorage.read("mars-theme");
function draw() {
  button.textContent = isDark() ? "Light" : "Dark";
}
if (stored && !new URLSearchParams(location.search).has("__theme"))
  document.body.classList.toggle("dark", stored === "dark");
button.addEventListener("click", () => {
  document.body.classList.toggle("dark");
  marsStorage.write("mars-theme", isDark() ? "dark" : "light");
  draw();
});
draw();
// The Tab key begins at the prompt, so that Compare is its second stop: it goes on from what last had the focus.
function begin() {
  const prompt = document.querySelector("#prompt");
  if (!prompt?.getClientRects().length || document.activeElement !== document.body) return;
  prompt.tabIndex = -1;
  prompt.focus({ preventScroll: true });
  prompt.blur();
  prompt.removeAttribute("tabindex");
}
// The server names the device when the example is drawn: it imports torch for it and then loads the models, which would slow the page down.
const drawn = marsLibrary()
  .then(idle)
  .then(() => window.marsFigures)
  .then(idle)
  .catch(() => {});
Promise.race([drawn, new Promise((done) => setTimeout(done, 3000))]).then(() => {
  begin();
  trigger("select");
});
// Stop takes the place of what was pressed, with the focus, and gives both back.
const focus = (id) => document.getElementById(id).focus({ preventScroll: true });
let held; // the focus, by the button that was pressed
for (const state of ["done", "cancelled", "failed"])
  document.addEventListener("mars:compare-" + state, () => {
    if (held && ["stop", ""].includes(document.activeElement.id)) focus(held);
  });
// The result of what was pressed comes into sight: the settings are folded, in a small window it stands below.
document.addEventListener("mars:compare-running", () => {
  held = ["compare", "follow-up-ask"].find((id) => id === document.activeElement.id);
  if (held) focus("stop");
  document.querySelector("#settings").open = false;
  const block = matchMedia("(max-width: 640px), (max-height: 600px)").matches ? "start" : "nearest";
  document.querySelector("#compare-strip").scrollIntoView({ block, behavior: "smooth" });
});
// The list of a dropdown that is left by the keyboard: Gradio opens it again.
document.addEventListener("focusout", ({ target }) => {
  if (!target.matches('[role="combobox"]')) return;
  setTimeout(() => {
    if (document.activeElement !== target)
      target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  }, 100);
});
document.addEventListener("keydown", (event) => {
  const asks = event.target.closest?.("#follow-up");
  const run = document.querySelector(asks ? "#follow-up-ask" : "#compare");
  if (
    event.key === "Enter" &&
    (event.ctrlKey || event.metaKey) &&
    !event.defaultPrevented &&
    run?.getClientRects().length
  )
    run.click();
});
