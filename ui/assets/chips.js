// Example prompts; written with textContent.
const box = element.querySelector(".mars-chips");
function update() {
  box.replaceChildren(...JSON.parse(props.value).map(([short, full], index) => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = short;
    if (short !== full) chip.title = full;
    chip.addEventListener("click", () => trigger("select", { index }));
    return chip;
  }));
}
watch("value", update);
update();
