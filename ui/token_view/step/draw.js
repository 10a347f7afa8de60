// The step on the page. Text enters it through textContent only.
const FATES = {
  accepted: "accepted",
  relaxed: "relaxed: the rule keeps it, strict rejects it",
  rejected: "rejected",
  unread: "not reached: the text went another way",
  recovered: "the target's own token instead",
  bonus: "one more token of the target's own",
};

function chip({ piece, fate, chances = "" }, place, delay) {
  const node = make("code", "mars-s-chip " + fate, piece);
  node.title = FATES[fate] + chances;
  node.style.gridArea = `${place.line + 1} / ${place.column}`;
  node.style.setProperty("--mars-delay", delay);
  return node;
}

function drawStep() {
  const chosen = steps[now],
    nodes = draftOf(chosen),
    laid = places(nodes);
  at("place").textContent = `Step ${count(now + 1)} of ${count(steps.length)}`;
  at("back").disabled = !now;
  at("next").disabled = now === steps.length - 1;
  at("before").textContent =
    "…" +
    run.rows
      .slice(Math.max(0, chosen.first - 12), chosen.first)
      .map(([text]) => text)
      .join("");
  at("draft").replaceChildren(
    ...(nodes.length
      ? nodes.map((node, index) => chip(node, laid[index], laid[index].column))
      : [make("span", "", "nothing: the target writes one token")]),
  );
  at("gain").replaceChildren(
    ...chosen.rows.map((row, index) =>
      chip({ piece: row[2], fate: outcomeOf(row) }, { line: 0, column: index + 1 }, index),
    ),
  );
  at("words").textContent = counted(chosen.rows, nodes.length);
  decide();
}

function counted(rows, drafted) {
  const named = (name) => rows.filter((row) => outcomeOf(row) === name).length;
  const kept = ["accepted", "relaxed"].filter(named).map((name) => `${named(name)} ${name}`);
  const own = FATES[outcomeOf(rows.at(-1))];
  const gained = rows.length === 1 ? "1 token" : `${rows.length} tokens`;
  const last = keptByRun(rows.at(-1)) ? "" : `; then ${own}`;
  return `${drafted} drafted, ${kept.join(", ") || "none kept"}${last}: ${gained} for one pass of the target.`;
}

// The two best logits where a draft was relaxed or refused, and what MARS at θ would do there.
function decide() {
  const chosen = steps[now],
    index = decidedAt(chosen),
    row = chosen.rows[index],
    r = row ? fieldOf(row, "r") : NaN;
  box.querySelector(".mars-s-decision").hidden = !(r >= 0 && r <= 1) || row[6][0].length < 2;
  if (box.querySelector(".mars-s-decision").hidden) return;
  const level = (views[props.scope] || PLAIN_VIEW).theta,
    [first, second] = row[6][0],
    [best, other] = box.querySelectorAll(".mars-s-bars > span"),
    drafted = outcomeOf(row) === "relaxed" ? row[2] : row[5][0][0];
  at("decided").replaceChildren(
    "Drafted ",
    pieceCode(drafted),
    outcomeOf(row) === "relaxed" ? ": the rule kept it. " : ": refused. ",
    `The two best logits of the target, r = z₂/z₁ = ${number(r)}:`,
  );
  best.replaceChildren(pieceCode(first), " " + number(fieldOf(row, "z₁")));
  other.replaceChildren(pieceCode(second), " " + number(fieldOf(row, "z₂")));
  box.style.setProperty("--mars-r", 100 * r + "%");
  box.style.setProperty("--mars-theta", 100 * level + "%");
  theta.value = level;
  box.querySelector("output").textContent = level;
  const codes = (run.latest.judged || "").split(",")[chosen.first + index] || "",
    kept = wouldKeep(row, codes, level).indexOf(true);
  const pieces = [...row[5].map(([piece]) => piece), row[2]];
  at("if").replaceChildren(
    ...(codes
      ? kept < 0
        ? [`MARS at θ = ${level} would refuse it.`]
        : [`MARS at θ = ${level} would keep `, pieceCode(pieces[kept]), "."]
      : []),
  );
}

const pieceCode = (piece) => make("code", "", piece);
