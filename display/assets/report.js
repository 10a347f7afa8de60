// The report draws itself: every component from its values. Asks for nothing from anywhere: what the page would fetch is in this file.
const VALUES = JSON.parse(document.getElementById("values").textContent);
const theme = document.getElementById("theme");
const dark = () => document.body.classList.contains("dark");
function paint(isDark) {
  document.body.classList.toggle("dark", isDark);
  theme.textContent = isDark ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark ? "Switch to light" : "Switch to dark");
}
paint(matchMedia("(prefers-color-scheme: dark)").matches);
theme.addEventListener("click", () => paint(!dark()));
window.marsLibrary = () => Promise.resolve(window.Plotly);
for (const element of document.querySelectorAll("[data-piece]")) {
  const { script, props } = VALUES[Number(element.dataset.piece)];
  try {
    SCRIPTS[script](
      element,
      props,
      () => {},
      () => {},
    );
  } catch (error) {
    console.error(error);
  }
}
marsDraw(document, "report");
