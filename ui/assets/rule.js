// What the chosen rule does, its formula and its source; written with textContent.
const rule = element.querySelector(".mars-rule"), [summary, details] = rule.children, [, formula, source] = details.children;
function update() {
  const value = JSON.parse(props.value);
  summary.textContent = value.summary;
  details.hidden = !value.formula;
  formula.textContent = value.formula;
  source.textContent = value.source;
}
watch("value", update);
update();
