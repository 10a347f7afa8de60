// What the chosen rule does, its formula and its source; written with textContent.
const [summary, formula, source] = element.querySelector(".mars-rule").children;
function update() {
  const value = JSON.parse(props.value);
  summary.textContent = value.summary;
  formula.textContent = value.formula;
  formula.hidden = !value.formula;
  source.textContent = value.source;
}
watch("value", update);
update();
