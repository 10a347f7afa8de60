// What is the visitor's own: who they are here, what they share, and the way out with it or without it. Everything is written with
// textContent; every deed is reported as {deed, …}. Deleting asks for a word first.
const at = (selector) => element.querySelector(selector);
const [body, open, confirm, doom, said] = [at("#mars-mine-body"), at(".mars-mine-open"), at("form"), at(".mars-mine-tools button"), at(".mars-mine-said")];
const [word, sure, keep] = [confirm.querySelector("input"), confirm.querySelector('[type="submit"]'), at(".mars-mine-keep")];
const [take, shares, none, exported] = [at(".mars-mine-take"), at("ul"), at(".mars-mine-none"), at(".mars-mine-tools a")];
const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const WORD = "delete";

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function expand(shown) {
  body.hidden = !shown;
  open.setAttribute("aria-expanded", String(shown));
}

function ask(shown) {
  confirm.hidden = !shown;
  doom.setAttribute("aria-expanded", String(shown));
  word.value = "";
  sure.disabled = true;
}

function say(text, state = "") {
  said.textContent = text;
  said.dataset.state = state;
}

function entry({ kind, id, title, created }) {
  const item = make("li"), words = make("span", "mars-mine-share"), link = make("a", "", title), stop = make("button", "mars-small", "Stop sharing");
  link.href = "?" + kind + "=" + encodeURIComponent(id);
  const time = make("time", "", SHOWN.format(new Date(created)));
  time.dateTime = created;
  words.append(make("span", "mars-tag", kind), link, make("small", "", "since "));
  words.lastElementChild.append(time);
  stop.type = "button";
  stop.setAttribute("aria-label", "Stop sharing the " + kind + " " + title);
  stop.addEventListener("click", () => trigger("select", { deed: "unshare", kind, id }));
  item.append(words, stop);
  return item;
}

open.addEventListener("click", () => expand(body.hidden));
doom.addEventListener("click", () => {
  ask(confirm.hidden);
  if (!confirm.hidden) word.focus();
});
keep.addEventListener("click", () => {
  ask(false);
  doom.focus();
});
word.addEventListener("input", () => { sure.disabled = word.value.trim().toLowerCase() !== WORD; });
confirm.addEventListener("keydown", (event) => { if (event.key === "Escape") keep.click(); });
confirm.addEventListener("submit", (event) => {
  event.preventDefault();
  if (sure.disabled) return;
  const typed = word.value;
  ask(false);
  doom.focus();
  say("Deleting …");
  trigger("delete", { deed: "delete", word: typed });
});
take.lastElementChild.addEventListener("click", () => {
  say("Taking it along …");
  trigger("delete", { deed: "take" });
});

// Who shares or stops sharing elsewhere on the page changes the list here, and the other way round.
const listen = (name, deed) => {
  const heard = (event) => {
    if (!element.isConnected) return document.removeEventListener(name, heard);
    deed(event);
  };
  document.addEventListener(name, heard);
};
listen("mars:shared", () => trigger("select", { deed: "look" }));
listen("mars:mine", reveal);
function reveal() {
  window.marsMine = false;
  expand(true);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  setTimeout(() => {
    element.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
    open.focus({ preventScroll: true });
  }, 250);
}

let gone = "";
function update() {
  const value = JSON.parse(props.value);
  at(".mars-mine-who").textContent = value.who + " " + value.counts;
  at(".mars-mine-kept").textContent = value.kept;
  take.hidden = !value.take;
  take.firstElementChild.textContent = value.take;
  take.lastElementChild.textContent = "Take it along";
  const focused = [shares, take].some((part) => part.contains(document.activeElement));
  shares.replaceChildren(...value.shares.map(entry));
  shares.hidden = !value.shares.length;
  none.textContent = value.shares.length ? "Whoever has one of these links can read what it shows, with its notes." : "Nothing is shared.";
  if (focused) (shares.querySelector("button") || open).focus();
  exported.hidden = !value.lasting;
  at("#mars-mine-doomed").textContent = value.doomed;
  doom.disabled = !value.anything;
  say(value.said, value.state);
  document.dispatchEvent(new CustomEvent("mars:shares", { detail: value.shares.map(({ kind, id }) => kind + "/" + id) }));
  if (value.changed && value.changed !== gone) document.querySelector("#history-close")?.click();  // what is open may be gone; the list is read anew
  gone = value.changed;
}
watch("value", update);
update();
if (window.marsMine) reveal();
