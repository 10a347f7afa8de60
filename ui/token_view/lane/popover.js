// What is known of one token, beside it; once it is pinned, its alternatives are buttons that continue from them.
const pieceNode = (piece, name) => make("code", name || "piece", piece);

// Another run can go on from what is pinned.
const continues = () => pinned && props.continues && state.latest.continues && ended(state);

function choice(piece, id, name, index) {
  if (!continues()) return pieceNode(piece, name);
  const button = make("button", "mars-continue");
  button.type = "button";
  button.title = "Continue from it: write on with this token in its place";
  button.setAttribute("aria-label", "Continue from " + piece);
  button.append(pieceNode(piece, name));
  button.addEventListener("click", () => {
    hide(true);
    trigger("select", { lane: props.lane, index, token: id });
  });
  return button;
}

const unreported = (row) => fieldOf(row, "step") < 0; // of a server that tells no steps

function heading(row, index) {
  const outcome = OUTCOMES[row[1]],
    head = make("div", "mars-pop-head");
  head.append(pieceNode(row[2]));
  if (!unreported(row)) head.append(make("span", "mars-pill " + outcome.name, outcome.name));
  if (outcome.name === "relaxed" && row[4].length) {
    head.append(
      make("span", "mars-instead", "the target drew"),
      choice(row[4][0], row[4][1], "struck", index),
    );
  }
  return head;
}

function refusal(siblings, index) {
  const part = document.createDocumentFragment();
  part.append("; the draft said ");
  siblings.forEach(([piece, encoded], siblingIndex) => {
    const [id, p, q] = encoded.split(",").map(parsed);
    part.append(
      siblingIndex ? (siblingIndex > 1 ? ", " : ` and ${siblings.length - 1} more: `) : "",
      choice(piece, id, "struck", index),
    );
    part.append(siblingIndex ? ` (p ${number(p)})` : ` (p ${number(p)}, q ${number(q)})`);
  });
  return part;
}

function story(row, index) {
  const [, outcome, , , drawn, refused, , , told = []] = row;
  const line = make("p", "mars-pop-story");
  if (told.length) line.append(...told.map((part, at) => (at % 2 ? pieceNode(part) : part)));
  else if (unreported(row)) line.append("the server's own; it does not say what was drafted");
  else line.append(OUTCOMES[outcome].meaning);
  if (refused.length) line.append(refusal(refused, index));
  if (drawn.length && !told.length)
    line.append("; the target drew ", choice(drawn[0], drawn[1], "struck", index));
  return line;
}

// Of a relaxed token that is pinned: what would have followed without it.
function rejection(row, index) {
  if (!continues() || outcomeOf(row) !== "relaxed") return [];
  const button = make("button", "mars-small", "What if it had been rejected here?");
  button.type = "button";
  button.title =
    "Strict continues from before it and from after it; both texts appear below the lanes";
  button.addEventListener("click", () => {
    hide(true);
    trigger("select", { lane: props.lane, index, rejected: true });
  });
  return [button];
}

const figure = (row, name) =>
  (row[7] === 4 && ["TV", "KL"].includes(name) ? "≤ " : "") + written(name, fieldOf(row, name));

function foreseen(row, index) {
  const codes = (state.latest.judged || "").split(",")[index] || "";
  if (view.quantity !== "whatif" || !codes) return [];
  const kept = wouldKeep(row, codes, view.theta),
    at = kept.indexOf(true);
  const piece = at >= 0 && !keptByRun(row) ? row[5][at][0] : row[2],
    line = make("p", "mars-pop-if");
  line.append(
    `MARS at θ = ${view.theta}: would `,
    at >= 0 ? "keep " : "refuse ",
    pieceNode(at >= 0 ? piece : (row[5][0] || [row[2]])[0]),
  );
  return [line];
}

const FEW = new Set(["r", "p", "q", "rank", "value", "position"]); // what explains most; a pinned token shows the rest on demand

function figures(row) {
  const [few, rest] = [make("dl", "mars-pop-numbers"), make("dl", "mars-pop-numbers")];
  for (const [name, help] of FIELDS) {
    if ((name === "value" || name === "regret") && Number.isNaN(fieldOf(row, name))) continue;
    if (name === "p, T = 0" && row[7] !== 1) continue;
    const cell = make("div");
    cell.title = help;
    cell.append(make("dt", "", name), make("dd", "", figure(row, name)));
    (FEW.has(name) ? few : rest).append(cell);
  }
  if (!pinned) return [few];
  const more = make("details", "mars-pop-more");
  more.append(make("summary", "", "All numbers"), rest);
  return [few, more];
}

function alternatives(row, index) {
  const box = make("div", "mars-pop-top"),
    [pieces, encoded] = row[6],
    values = encoded.split(",").map(parsed);
  pieces.forEach((piece, rank) => {
    const [id, p] = values.slice(2 * rank),
      same = id === fieldOf(row, "id");
    const tied = rank < 2 && row[8]?.[0]?.startsWith("The two best");
    const line = make("div", (same ? "same " : "") + (tied ? "tied" : "")),
      track = make("span", "track");
    track.append(make("i"));
    track.firstChild.style.width = 100 * Math.min(1, Math.max(0, p)) + "%";
    line.append(
      same ? pieceNode(piece) : choice(piece, id, "piece", index),
      track,
      make("b", "", number(p)),
    );
    box.append(line);
  });
  const covered = pieces.length
    ? pieces.reduce((sum, _, rank) => sum + values[2 * rank + 1], 0)
    : NaN;
  box.append(
    make(
      "p",
      "mars-pop-covered",
      "Probability covered: " + share(covered) + (row[7] === 1 ? " (at temperature 1)" : ""),
    ),
  );
  return box;
}

function placePopover(target) {
  const outer = lane.getBoundingClientRect(),
    box = target.getClientRects()[0] || target.getBoundingClientRect();
  const width = Math.min(340, outer.width - 16);
  pop.style.width = width + "px";
  const left = Math.max(8, Math.min(box.left - outer.left - 12, outer.width - width - 8));
  pop.style.left = left + "px";
  const below =
    box.bottom + 8 + pop.offsetHeight < window.innerHeight || box.top < pop.offsetHeight + 16;
  pop.classList.toggle("high", box.top > window.innerHeight / 2); // in a narrow window
  pop.style.top =
    (below ? box.bottom - outer.top + 8 : box.top - outer.top - pop.offsetHeight - 8) + "px";
}

function fill(index) {
  const row = state.rows[index];
  const parts = [heading(row, index), story(row, index), ...foreseen(row, index)];
  parts.push(...rejection(row, index));
  if (row[3]) parts.push(...figures(row), alternatives(row, index));
  pop.replaceChildren(...parts);
  pop.classList.toggle("pinned", pinned);
  if (!pinned) return;
  if (pop.querySelector(".mars-continue"))
    pop.append(make("p", "mars-pop-hint", "Choose a token to continue from it in a new lane."));
  const close = make("button", "mars-pop-close", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", leave);
  pop.append(close);
}

// Back to the text, where the arrow keys go on. What then lies under a pointer that did not move is not asked for.
let left = "";
const place = ({ screenX, screenY }) => `${screenX}, ${screenY}`;

function leave(event) {
  left = place(event);
  hide(true);
  text.focus({ preventScroll: true });
}
