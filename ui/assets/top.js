// The top of the page: device (once torch is imported), and the switch between light and dark, kept by the browser. While the page is idle it loads Plotly, so that
// the first figure need not wait for it.
const update = () => { element.querySelector(".mars-chip").textContent = props.value; };
watch("value", update);
update();
const button = element.querySelector(".mars-mode");
const isDark = () => document.body.classList.contains("dark");
function keep(value) { try { localStorage.setItem("mars-theme", value); } catch { /* a private window keeps nothing */ } }
function kept() { try { return localStorage.getItem("mars-theme"); } catch { return null; } }
function draw() { button.textContent = isDark() ? "Light" : "Dark"; }
if (kept() && !new URLSearchParams(location.search).has("__theme")) document.body.classList.toggle("dark", kept() === "dark");
button.addEventListener("click", () => { document.body.classList.toggle("dark"); keep(isDark() ? "dark" : "light"); draw(); });
draw();
const ahead = () => library().catch(() => {});
if (window.requestIdleCallback) requestIdleCallback(ahead, { timeout: 8000 });
else setTimeout(ahead, 3000);
// In a narrow window the result stands below what was pressed.
document.addEventListener("click", ({ target }) => {
  if (!target.closest("#compare, #again") || !matchMedia("(max-width: 640px)").matches) return;
  document.querySelector("#compare-strip").scrollIntoView({ block: "start", behavior: "smooth" });
});
document.addEventListener("keydown", (event) => {
  const run = document.querySelector("#compare");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && run?.getClientRects().length) run.click();
});
