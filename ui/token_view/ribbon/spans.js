// What the text of a lane is, span by span, and how many tokens its steps wrote.
const KINDS = {
  shared: "as in the baseline from the beginning",
  parted: "another text",
  met: "the same words again",
  looped: "repeats what is before it",
};
const STEPS = 8; // of which the running τ is the mean

// Spans of one kind, as [kind, first, after the last]; a text alone is in none but loops.
function spansOf({ rows, latest }) {
  const kinds = rows.map(() => (latest.shared.length ? "parted" : ""));
  for (const [first, after] of latest.shared) kinds.fill(first ? "met" : "shared", first, after);
  for (const [first, after] of latest.looped) kinds.fill("looped", first, after);
  const found = [];
  kinds.forEach((kind, at) => {
    if (at && kinds[at - 1] === kind) found.at(-1)[2] = at + 1;
    else found.push([kind, at, at + 1]);
  });
  return found;
}

// After each step: the position, and the mean length of the last steps.
function paceOf({ rows }) {
  const ends = [];
  rows.forEach((row, at) => {
    const step = fieldOf(row, "step");
    if (!(step >= 0)) return; // given, or not reported
    if (ends.at(-1)?.step === step) ends.at(-1).end = at + 1;
    else ends.push({ step, first: at, end: at + 1 });
  });
  return ends.map(({ end }, index) => {
    const since = Math.max(0, index - STEPS + 1);
    return [end, (end - ends[since].first) / (index - since + 1)];
  });
}
