// The address bar and the page agree: `mars:address` {name: text, …} writes into it, `mars:open` {comparison, runs} opens one in History,
// and what it says when the page opens or the visitor goes back is reported to the server. Opening something is an entry of its history;
// typing in a search is not.
const PLACES = ["tab", "comparison"];

const parameters = () => new URLSearchParams(location.search);
const plain = (name, text) => (name === "tab" && text === props.first ? "" : text || "");

function view() {
  const query = parameters();
  const words = Object.fromEntries(props.names.map((name) => [name, query.get(name) || ""]));
  return { ...words, zone: new Date().getTimezoneOffset() };
}

// The tab that the address names and that is not chosen yet: until it is, tabs that show themselves say nothing.
let awaited = null;
function expect(words) {
  const named = props.names.some((name) => words[name]);
  awaited = words.tab || (words.study ? "quality" : named ? "history" : props.first);
}

// What another tab shows is taken out of the address, and comes back with that tab.
const away = {};
const home = (name) => (name === "study" ? "quality" : "history");
function moved(patch) {
  if (!("tab" in patch)) return patch;
  const query = parameters(),
    complete = { ...patch };
  for (const name of props.names) {
    if (name === "tab" || name in patch) continue;
    const here = home(name) === (patch.tab || props.first),
      text = query.get(name);
    if (!here && text) away[name] = text;
    if (!here) complete[name] = "";
    else if (!text && away[name]) complete[name] = away[name];
  }
  return complete;
}

function merge(patch) {
  if (awaited !== null && "tab" in patch) {
    if (patch.tab !== awaited) return;
    awaited = null;
    return write(moved(patch), false);
  }
  write(moved(patch), true);
}

function write(patch, places) {
  const query = parameters();
  let adds = false;
  for (const [name, text] of Object.entries(patch)) {
    if (!props.names.includes(name)) continue;
    const value = plain(name, text),
      old = query.get(name) || "";
    adds ||= PLACES.includes(name) && value !== old && (value !== "" || name === "tab");
    if (value) query.set(name, value);
    else query.delete(name);
  }
  for (const name of props.names) {
    // always in one order, so that one view has one address
    const text = query.get(name);
    query.delete(name);
    if (text) query.append(name, text);
  }
  const search = query.toString().replaceAll("%2C", ",");
  const target = location.pathname + (search ? "?" + search : "") + location.hash;
  if (target === location.pathname + location.search + location.hash) return;
  history[adds && places ? "pushState" : "replaceState"](history.state, "", target);
}

const listen = (name, target, action) => {
  const heard = (event) => {
    if (!element.isConnected) return target.removeEventListener(name, heard);
    action(event);
  };
  target.addEventListener(name, heard);
};
listen("mars:address", document, (event) => merge(event.detail));
listen("mars:open", document, (event) => {
  const { comparison = parameters().get("comparison") || "", runs } = event.detail;
  merge({ tab: "history", comparison, ...(runs ? { runs: runs.join(",") } : {}) });
  report();
});
// `select` chooses the tab. What History is to show is sent with `input`, and only once its components are there: what is sent to
// a component before it appears takes its properties away.
let there = false;
function report() {
  const words = view();
  expect(words);
  trigger("select", words);
  if (there) trigger("input", words);
}
listen("mars:history", document, () => {
  const words = view();
  if (!there && props.names.some((name) => name !== "tab" && words[name])) trigger("input", words);
  there = true;
});
for (const type of ["pointerdown", "keydown"])
  listen(type, document, () => {
    awaited = null;
  });
listen("popstate", window, report);
let newest = 0; // time of what was written last
watch("value", () => {
  const { at, ...patch } = JSON.parse(props.value);
  if (at < newest) return;
  newest = at ?? newest;
  merge(patch);
});
if (props.names.some((name) => parameters().get(name))) report();
