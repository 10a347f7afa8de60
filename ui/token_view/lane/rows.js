// The rows of a lane as numbers: what their strings say, how strongly a value is coloured, what MARS at θ would keep. No page.
const OUTCOMES = props.outcomes,
  FIELDS = props.fields;
const AT = Object.fromEntries(FIELDS.map(([name], index) => [name, index]));
const INTEGERS = ["position", "step", "depth", "node", "id"]; // numbers that are names: written as they are
const QUANTITIES = Object.fromEntries(props.quantities.map((quantity) => [quantity.key, quantity]));

const parsed = (text) =>
  text.endsWith("inf") ? (text[0] === "-" ? -Infinity : Infinity) : Number(text); // "nan" is NaN
const numbers = (row) => (row.numbers ||= row[3] ? row[3].split(",").map(parsed) : []);
const fieldOf = (row, name) => numbers(row)[AT[name]] ?? NaN;
const outcomeOf = (row) => OUTCOMES[row[1]].name;
const keptByRun = (row) => ["accepted", "relaxed"].includes(outcomeOf(row));

function written(name, value) {
  if (INTEGERS.includes(name)) return Number.isNaN(value) ? "–" : String(value);
  return name === "rank" && value === value ? count(value) : number(value);
}

// How strongly a value is coloured, 0 to 1; r: -1 (sure) to 1 (near tie), 0 at θ.
function strength(quantity, value, theta) {
  if (value !== value) return 0;
  if (quantity.key === "r") {
    const near = value > theta,
      reach = Math.max(near ? 1 - theta : theta, 0.02);
    return (near ? 1 : -1) * (0.25 + 0.75 * Math.min(1, Math.abs(value - theta) / reach));
  }
  const on = quantity.logarithmic ? (x) => Math.log(Math.max(x, 1e-9)) : (x) => x;
  const [from, to] = [on(quantity.pale), on(quantity.strong)];
  return Math.min(1, Math.max(0, (on(value) - from) / (to - from)));
}

// Rows together, as [first, after the last]: words begin with white space; sentences end with a stop or a line.
function groups(rows, granularity, from, to) {
  const groups = [];
  let first = from;
  for (let i = from + 1; i <= to; i += 1) {
    if (i < to && granularity !== "token" && !begins(rows, i, granularity)) continue;
    groups.push([first, i]);
    first = i;
  }
  return groups;
}

function begins(rows, i, granularity) {
  const before = rows[i - 1][0],
    here = rows[i][0];
  if (granularity === "word") return /^\s/.test(here) || /\s$/.test(before);
  if (/\n$/.test(before)) return true;
  const stop = /[.!?…。！？]["”’)\]]*\s*$/.test(before);
  return stop && (/^\s/.test(here) || /\s$/.test(before) || /[。！？]/.test(before));
}

// The value of a group: the most striking one of a word, the mean of a sentence.
function valueOf(rows, [first, after], quantity, granularity) {
  const values = rows
    .slice(first, after)
    .map((row) => fieldOf(row, quantity.field))
    .filter((value) => value === value);
  if (!values.length) return NaN;
  if (granularity === "sentence")
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  return quantity.most === "smallest" ? Math.min(...values) : Math.max(...values);
}

// What MARS at θ would do with each draft judged at a row. Codes as ui/result/whatif.py writes them: 2 kept at low margin, 1 elsewhere.
const wouldKeep = (row, codes, theta) =>
  [...codes].map((code) => (code & (fieldOf(row, "r") > theta ? 2 : 1)) > 0);

// The same of a run, and in how many passes it would write as many tokens if at every depth of a draft that share were kept.
function keptAt(rows, judged = "", theta) {
  const counts = { judged: 0, kept: 0, more: 0, fewer: 0, steps: 0 },
    codes = judged.split(","),
    depths = []; // of each: steps that judged a draft there, and that would keep one
  let step = NaN,
    depth = 0,
    written = 0;
  rows.forEach((row, i) => {
    const here = fieldOf(row, "step"),
      kept = wouldKeep(row, codes[i] || "", theta);
    if (Number.isNaN(here)) return;
    depth = here === step ? depth + 1 : 0;
    counts.steps += here !== step;
    step = here;
    written += 1;
    for (const now of kept) {
      counts.judged += 1;
      counts.kept += now;
      counts.more += now && !keptByRun(row);
      counts.fewer += !now && keptByRun(row);
    }
    if (kept.length) {
      const all = (depths[depth] ||= [0, 0]);
      all[0] += 1;
      all[1] += kept.some(Boolean);
    }
  });
  let reached = 1,
    length = 1;
  for (const [tried, kept] of depths) length += reached *= kept / tried;
  return { ...counts, passes: written / length };
}
