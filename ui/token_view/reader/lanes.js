// In a narrow window the lanes are tabs: their names, and which of them is in sight. In a wide one their texts scroll together.
const names = at("lanes");
const wrote = (lane) => lane.rows.length > 0;
const relaxes = (lane) => lane.rows.some((row) => outcomeOf(row) === "relaxed");
const next = ({ pins }) => tell("mars:next", { run: lanes().findLast(relaxes)?.run, pins });
at("next").addEventListener("click", next);
listen("mars:relaxed", next);
const card = (lane) => lane.element.closest(".mars-card");

let writing; // the lane that runs; it comes into sight when it begins

function bring(lane) {
  const row = card(lane).parentElement;
  row.scrollLeft += card(lane).getBoundingClientRect().left - row.getBoundingClientRect().left;
}

function mark() {
  if (!narrow.matches) return;
  const left = names.getBoundingClientRect().left;
  const away = lanes().map((lane) => Math.abs(card(lane).getBoundingClientRect().left - left)),
    least = Math.min(...away);
  Array.from(names.children, (button, index) =>
    button.setAttribute("aria-pressed", String(away[index] === least)),
  );
}

function name() {
  const all = lanes(),
    titles = all.map((lane) => lane.latest.title);
  if (titles.join("\n") !== Array.from(names.children, (button) => button.textContent).join("\n")) {
    names.replaceChildren(
      ...titles.map((title) => Object.assign(make("button", "", title), { type: "button" })),
    );
  }
  names.hidden = all.length < 2;
  if (all.length) {
    const row = card(all[0]).parentElement;
    row.onscroll = mark;
    row.addEventListener("scroll", follow, true);
  }
  const before = writing;
  writing = all.find((lane) => lane.latest.state === "running");
  if (writing && writing !== before) bring(writing);
  if (before && !busy()) bring(all.findLast(relaxes) || all.findLast(wrote) || before); // what came of it
  at("next").disabled = !all.some(relaxes);
  mark();
}

const shown = ({ element }) =>
  element.querySelector(".mars-text:not([hidden]), .mars-read:not([hidden])");
const led = new Set(); // texts whose next event is not the visitor's
const topOf = (lane, index) => lane.spanOf(index).offsetTop - lane.spanOf(0).offsetTop;

// What one text has at a part of its height, the others have there: at the top their beginnings, at the bottom their ends.
function follow({ target }) {
  const from = lanes().find((lane) => shown(lane) === target);
  if (!from || led.delete(target) || !chosen.linked || busy()) return;
  const room = target.scrollHeight - target.clientHeight,
    part = room > 0 ? target.scrollTop / room : 0,
    height = target.scrollTop + part * target.clientHeight;
  for (const to of lanes()) {
    const other = shown(to),
      before = other?.scrollTop;
    if (to === from || !other) continue;
    if (chosen.reading === "tokens" && to.rows.length && from.rows.length) {
      const index = from.tokenAt(height),
        there = topOf(to, counterpart(from, to, index)) + height - topOf(from, index);
      other.scrollTop = there - part * other.clientHeight;
    } else other.scrollTop = part * (other.scrollHeight - other.clientHeight);
    if (other.scrollTop !== before) led.add(other);
  }
}

names.addEventListener("click", ({ target }) => {
  const lane = lanes()[[...names.children].indexOf(target.closest("button"))];
  if (lane) bring(lane);
});
listen("mars:lane", () => inFrame(props.scope + "/names", name));
narrow.addEventListener("change", mark);
name();
offer();
