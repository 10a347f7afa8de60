// What the chosen pair can do and whether it fits; written with textContent.
const note = element.querySelector(".mars-note"), [text, facts] = note.children;
function update() {
  const value = JSON.parse(props.value);
  note.dataset.state = value.state;
  text.textContent = value.text;
  facts.textContent = value.facts.join(" · ");
}
watch("value", update);
update();
