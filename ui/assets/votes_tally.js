// The results of the votes: one row a pair of rules with a bar of its shares, and the latest votes. textContent only.
const box = element.querySelector(".mars-tally");
const empty = box.querySelector(".mars-history-empty"), table = box.querySelector("table");
const head = table.querySelector("thead tr"), body = table.querySelector("tbody");
const links = box.querySelector(".mars-vote-downloads"), recent = box.querySelector(".mars-tally-recent");
const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const KINDS = ["first", "second", "tie", "bad"], TITLES = ["First wins", "Second wins", "Ties", "Both bad"];
const HEADS = ["Pair of rules", "Votes", ...TITLES, "Second’s win rate", "95 % interval", "Same text"];
props.colours.forEach((colour, index) => box.style.setProperty("--mars-share-" + index, colour));

function make(tag, name, text, role) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  if (role) node.setAttribute("role", role);
  return node;
}

function bar({ shares, counts, names }) {
  const node = make("span", "mars-tally-bar", undefined, "img");
  const [first, second, ties, bad] = counts;
  node.setAttribute("aria-label", `${names[0]} ${first}, ${names[1]} ${second}, ties ${ties}, both bad ${bad}`);
  shares.forEach((share, index) => {
    if (!share) return;
    const part = make("i", KINDS[index]);
    part.style.flexGrow = share;
    part.title = `${TITLES[index]}: ${counts[index]}`;
    node.append(part);
  });
  return node;
}

function row(pair) {
  const line = make("tr", "", undefined, "row"), title = make("th", "", undefined, "rowheader");
  title.scope = "row";
  pair.names.forEach((name, index) => {
    const rule = make("span", "mars-tally-rule");
    rule.append(make("i", KINDS[index]), (index ? "Second: " : "First: ") + name);
    title.append(rule);
  });
  title.append(bar(pair));
  const cells = [pair.votes, ...pair.counts, pair.rate, pair.interval, pair.same].map((text, index) => {
    const cell = make("td", "", undefined, "cell"), marked = index > 0 && index < 5;
    cell.dataset.head = HEADS[index + 1];
    if (marked) cell.append(make("i", "mars-tally-key " + KINDS[index - 1]));
    cell.append(make("span", "", text));
    if (HEADS[index + 1] === HEADS[6] && pair.rate !== "–") cell.lastChild.append(make("small", "", pair.decided));
    return cell;
  });
  line.append(title, ...cells);
  return line;
}

function entry({ created, prompt, rules, choice, comment, comparison }) {
  const item = make("li"), button = make("button", "mars-tally-vote");
  button.type = "button";
  button.title = "Open in History";
  const time = make("time", "", SHOWN.format(new Date(created)));
  time.dateTime = created;
  const told = make("span", "mars-tally-rules");
  told.append(make("b", "", choice), make("small", "", rules));
  button.append(time, make("span", "mars-history-prompt", prompt), told);
  if (comment) button.append(make("span", "mars-tally-comment", comment));
  button.addEventListener("click", () =>
    document.dispatchEvent(new CustomEvent("mars:open", { detail: { comparison } })));
  item.append(button);
  return item;
}

head.replaceChildren(...HEADS.map((text) => {
  const cell = make("th", "", text, "columnheader");
  cell.scope = "col";
  return cell;
}));

function update() {
  const value = JSON.parse(props.value), any = value.pairs.length > 0;
  empty.textContent = value.message;
  empty.hidden = any;
  table.hidden = links.hidden = !any;
  body.replaceChildren(...value.pairs.map(row));
  recent.hidden = !value.votes.length;
  recent.querySelector("h3").textContent = value.head;
  recent.querySelector("ol").replaceChildren(...value.votes.map(entry));
}
watch("value", update);
update();
