// Sections of a report, each a panel. Where FOLDED, a section is drawn when it is unfolded for the first time, and stays unfolded.
const box = element.querySelector(".mars-quality-report"), unfolded = new Set();

function plain(section) {
  const panel = make("section", "mars-panel mq-section");
  panel.append(make("h2", "", section.title), ...blocksOf(section));
  return panel;
}

function folded(section) {
  const panel = make("details", "mars-panel mq-section mq-folded");
  const fill = () => { if (panel.open && panel.childElementCount === 1) panel.append(...blocksOf(section)); };
  panel.append(make("summary", "", section.title));
  panel.open = unfolded.has(section.name);
  fill();
  panel.addEventListener("toggle", () => {
    unfolded[panel.open ? "add" : "delete"](section.name);
    fill();
  });
  return panel;
}

function update() {
  const { facts, sections } = JSON.parse(props.value);
  keepingPlace(() => box.replaceChildren(
    ...(facts.length ? [factsOf(facts)] : []), ...sections.map(FOLDED ? folded : plain)));
}
function factsOf(facts) {
  const panel = make("div", "mars-quality-facts");
  panel.append(...facts.map((fact) => make("p", "", fact)));
  return panel;
}
watch("value", update);
update();
