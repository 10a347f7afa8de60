// What becomes of prompts and outputs; the button opens "Your data", which stands in History. What History shows stays as it is.
element.querySelector("span").textContent = props.value;
element.querySelector("button").addEventListener("click", () => {
  window.marsMine = true;  // for a panel that is only about to appear
  const asked = new URLSearchParams(location.search);
  const detail = { comparison: asked.get("comparison") || "", ...(asked.get("runs") ? { runs: asked.get("runs").split(",") } : {}) };
  document.dispatchEvent(new CustomEvent("mars:open", { detail }));
  document.dispatchEvent(new CustomEvent("mars:mine"));
});
