// The verdict of the self-check; written with textContent.
const line = element.querySelector(".mars-check");
function update() {
  const { state, text } = JSON.parse(props.value);
  line.dataset.state = state;
  line.textContent = text;
}
watch("value", update);
update();
