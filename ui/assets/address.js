// The address bar and the page agree: `mars:address` {name: text, …} writes into it, `mars:open` {comparison, runs, tab} opens one in
// History or another tab, and what it says when the page opens or the visitor goes back is reported to the server. Opening something
// is an entry of its history; typing in a search is not. What names mean is said in ui/kit/address.py.
const PLACES = ["tab", "comparison", "turn"];
const NAMES = ["tab", ...props.opens.map(([name]) => name)];
const EVENTS = { [props.first]: "submit", history: "input" };

// Links of earlier versions call the page of the list `page`.
const parameters = () =>
  new URLSearchParams(location.search.replace(/([?&])page=/, "$1list_page="));
const tabOf = (query) =>
  query.get("tab") || props.opens.find(([name]) => query.get(name))?.[1] || props.first;

function view() {
  const query = parameters();
  const words = Object.fromEntries(NAMES.map((name) => [name, query.get(name) || ""]));
  const rules = query.getAll("rule");
  return { ...words, rules, tab: tabOf(query), zone: new Date().getTimezoneOffset() };
}

// The tab that the address names and that is not chosen yet: until it is, tabs that show themselves say nothing.
let awaited = null;
const away = {}; // tab → what the address said of it when another one was chosen

let current = parameters(); // before the visitor goes back

function leave(query) {
  const names = NAMES.filter((name) => query.has(name));
  away[tabOf(query)] = Object.fromEntries(names.map((name) => [name, query.getAll(name)]));
}

function merge(patch) {
  const query = parameters(),
    from = tabOf(query),
    { tab = from } = patch;
  if (awaited !== null && "tab" in patch) {
    if (tab !== awaited) return;
    awaited = null;
    return write(patch, false);
  }
  if (tab === from) return write(patch, true);
  leave(query);
  const cleared = Object.fromEntries(NAMES.map((name) => [name, ""]));
  write({ ...cleared, ...away[tab], ...patch }, true);
}

// `places`: what was opened is an entry of the history.
function write(patch, places) {
  const old = parameters(),
    query = parameters();
  for (const name of NAMES) {
    // always in one order, so that one view has one address
    query.delete(name);
    const texts = name in patch ? [patch[name]].flat() : old.getAll(name);
    for (const text of texts) if (text) query.append(name, text);
  }
  if (query.get("tab") === props.first) {
    query.delete("tab");
    if (tabOf(query) !== props.first) query.set("tab", props.first);
  }
  const opened = (name) => query.get(name) !== old.get(name) && (query.has(name) || name === "tab");
  const search = query.toString().replaceAll("%2C", ",");
  const target = location.pathname + (search ? "?" + search : "") + location.hash;
  if (target === location.pathname + location.search + location.hash) return;
  history[places && PLACES.some(opened) ? "pushState" : "replaceState"](null, "", target);
  current = query;
}

const listen = marsListen.bind(null, element);
listen("mars:address", document, (event) => merge(event.detail));
listen("mars:open", document, (event) => {
  const { tab, comparison, runs, turn = "" } = event.detail,
    query = parameters();
  const named = { turn, ...(comparison && { comparison }), ...(runs && { runs: runs.join(",") }) };
  if (tab) for (const name of ["comparison", "runs", "share"]) named[name] = query.get(name) || ""; // what is open here
  merge({ tab: tab || "history", ...named });
  report();
});
// `select` chooses the tab. What a tab is to show is sent only once its components are there: what is sent to a component before it
// appears takes its properties away.
const there = new Set();
const names = (words) => NAMES.some((name) => name !== "tab" && words[name]);
const sent = {}; // of each tab, and of the choice of one, what was requested last
// What stood in Compare when the page was left comes back when it is loaded again.
let entered = history.state?.entered?.panel && history.state.entered;
listen("beforeunload", window, () => {
  const prompt = document.querySelector("#prompt textarea")?.value;
  history.replaceState({ entered: { prompt, panel: window.marsEntered?.() } }, "");
});
function show(words) {
  if (!there.has(words.tab) || !(names(words) || entered)) return;
  // what is shown while a run is under way is that run
  if (words.tab === props.first && document.body.dataset.compare === "running")
    write(latest[words.tab] || {}, false);
  else trigger(EVENTS[words.tab], marsLatest((sent[words.tab] ??= {}), { ...words, entered }));
  if (words.tab === props.first) entered = null;
}
function report() {
  const words = view();
  awaited = words.tab;
  trigger("select", marsLatest((sent.select ??= {}), words));
  show(words);
}
for (const tab of Object.keys(EVENTS))
  listen("mars:" + tab, document, () => {
    if (there.has(tab)) return;
    there.add(tab);
    if (tabOf(parameters()) === tab) show(view());
  });
for (const type of ["pointerdown", "keydown"])
  listen(type, document, () => {
    awaited = null;
  });
listen("popstate", window, () => {
  leave(current);
  current = parameters();
  report();
});
const latest = {}, // tab → what the server wrote last of it
  newest = {}; // and when
watch("value", () => {
  const { at, of, ...patch } = JSON.parse(props.value);
  if (at < newest[of]) return;
  newest[of] = at;
  latest[of] = patch;
  if (tabOf(parameters()) !== of) away[of] = { ...away[of], ...patch };
  // a first result is where the page already is
  else write(patch, of !== props.first || parameters().has("comparison"));
});
if (names(view()) || parameters().has("tab")) report();
