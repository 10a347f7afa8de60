// A round of the blind vote. Before the vote the value holds two texts and nothing else. Text enters the page through textContent only.
const box = element.querySelector(".mars-vote");
const sides = [...box.querySelectorAll(".mars-vote-answer")];
const choices = box.querySelector(".mars-vote-choices"), buttons = [...choices.querySelectorAll("button")];
const open = box.querySelector(".mars-vote-open"), NAMES = ["Answer A", "Answer B"];
const HINTS = {
  empty: "An answer appears here once both are written.",
  writing: "Being written. Both answers appear at once.",
};
let value = { state: "empty", answers: [], comparison: "" };

const make = (tag, name, text) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
};

function fact([name, number, unit, help]) {
  const cell = make("div"), shown = make("dd");
  cell.title = help;
  shown.append(make("b", "", number), " ", make("small", "", unit));
  cell.append(make("dt", "", name), shown);
  return cell;
}

function drawSide(side, answer, index) {
  const text = side.querySelector(".mars-vote-text"), rule = side.querySelector(".mars-vote-rule");
  side.classList.toggle("chosen", Boolean(answer?.chosen));
  rule.textContent = answer ? answer.rule + (answer.chosen ? " · your choice" : "") : "";
  side.querySelector(".mars-vote-facts").replaceChildren(...(answer?.facts ?? []).map(fact));
  text.setAttribute("aria-label", "Text of " + NAMES[index] + (answer?.rule ? ", " + answer.rule : ""));
  if (!answer) return text.replaceChildren(make("p", "mars-empty", HINTS[value.state] ?? ""));
  const rest = make("span", "mars-vote-rest", answer.rest);
  if (answer.rest) rest.title = "From here on the two texts differ";
  text.replaceChildren(answer.text, ...(answer.rest ? [rest] : []));
}

// The buttons that were pressed to come here are gone: without this the keyboard would start again at the top of the page.
const lost = () => document.activeElement === document.body || !document.activeElement?.getClientRects().length || box.contains(document.activeElement);

function draw(next) {
  const before = value.state;
  value = next;
  box.dataset.state = value.state;
  box.setAttribute("aria-busy", String(value.state === "writing"));
  sides.forEach((side, index) => drawSide(side, value.answers[index], index));
  buttons.forEach((button, index) => {
    button.disabled = false;
    button.tabIndex = index ? -1 : 0;
  });
  const wanted = before !== value.state && (value.state === "asking" || value.state === "revealed") && lost();
  choices.hidden = value.state !== "asking";
  open.hidden = !value.comparison;
  if (wanted) box.focus({ preventScroll: true });
}

function vote(button) {
  if (value.state !== "asking" || button.disabled) return;
  buttons.forEach((each) => { each.disabled = true; });
  trigger("select", { choice: button.dataset.choice });
}

const MOVES = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
choices.addEventListener("keydown", (event) => {
  const here = buttons.indexOf(event.target);
  if (here < 0 || !(event.key in MOVES)) return;
  event.preventDefault();
  const next = buttons[(here + MOVES[event.key] + buttons.length) % buttons.length];
  buttons.forEach((button) => { button.tabIndex = button === next ? 0 : -1; });
  next.focus();
});
box.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const button = buttons[["1", "2", "3", "4"].indexOf(event.key)];
  if (button && value.state === "asking") vote(button);
});
buttons.forEach((button) => button.addEventListener("click", () => vote(button)));
open.firstElementChild.addEventListener("click", () =>
  document.dispatchEvent(new CustomEvent("mars:open", { detail: { comparison: value.comparison } })));

const update = () => draw(JSON.parse(props.value));
watch("value", update);
update();
