// One step of a run that has ended, from the rows and drafts that its lane keeps in the window.
const at = (name) => box.querySelector(".mars-s-" + name);
const chooser = at("lane"),
  theta = at("theta");
let run = null, // the lane that is displayed
  steps = [],
  now = 0;

// The rows of each step; given tokens are of none.
function stepsOf(lane) {
  const found = [];
  lane.rows.forEach((row, index) => {
    const step = fieldOf(row, "step");
    if (!(step >= 0)) return; // given, or not reported
    if (found.at(-1)?.step !== step) found.push({ step, first: index, rows: [] });
    found.at(-1).rows.push(row);
  });
  return found;
}

// What became of each drafted token: its outcome in the text, refused where the text went on, or unread.
function draftOf({ step, rows }) {
  const [pieces, parents, chances] = run.latest.drafts[step] || [[], [], []];
  const kept = new Map(rows.map((row) => [fieldOf(row, "node"), outcomeOf(row)]));
  kept.delete(0);
  const last = Math.max(0, ...kept.keys()),
    refused = outcomeOf(rows.at(-1)) === "recovered";
  return pieces.map((piece, index) => {
    const fate = refused && parents[index] === last ? "rejected" : "unread";
    const [p, q] = chances[index].split(",").map(parsed);
    return {
      piece,
      parent: parents[index],
      fate: kept.get(index + 1) || fate,
      chances: `: p ${number(p)}, q ${number(q)}`,
    };
  });
}

// Column and line of each node: the depth, and the branch; the first child goes on in its parent's line.
function places(nodes) {
  const found = [],
    begun = new Set();
  let lines = 0;
  nodes.forEach(({ parent }, index) => {
    const above = parent ? found[parent - 1] : { column: 0, line: 0 };
    const line = begun.has(parent) ? (lines += 1) : above.line;
    begun.add(parent);
    found[index] = { column: above.column + 1, line };
  });
  return found;
}

// The token at which the step shows what its rule decides: the first relaxed one, else the one after a refusal.
const decidedAt = ({ rows }) =>
  rows.findIndex((row) => outcomeOf(row) === "relaxed") >= 0
    ? rows.findIndex((row) => outcomeOf(row) === "relaxed")
    : rows.findIndex((row) => row[5].length > 0);
