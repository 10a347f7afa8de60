// Sharing what is open. The link is made here from the address of this page, so that it holds behind any proxy; it is shown once.
const box = element.querySelector(".mars-share"), said = box.querySelector('[role="status"]'), words = box.querySelector(".mars-share-row p");
const [share, stop] = box.querySelectorAll("[data-deed]"), row = box.querySelector(".mars-share-link");
const field = row.querySelector("input"), copy = row.querySelector("button");
const MEANS = "Anyone with the link can read the prompt, texts and notes. Stop sharing any time.";
let value = {}, link = "", asking = false;

const address = ({ kind, id, token }) => location.origin + location.pathname + "?" + new URLSearchParams({ [kind]: id, share: token });
// A button that is disabled would lose the focus.
function report(deed) {
  if (asking) return;
  asking = true;
  box.setAttribute("aria-busy", "true");
  trigger("select", { deed, kind: value.kind, id: value.id });
}

share.addEventListener("click", () => report("share"));
stop.addEventListener("click", () => report("unshare"));
field.addEventListener("focus", () => field.select());
copy.addEventListener("click", async () => {
  field.select();
  try {
    await navigator.clipboard.writeText(link);
    said.textContent = "Copied.";
  } catch {  // a frame may not be allowed to
    said.textContent = document.execCommand("copy") ? "Copied." : "Copy the marked link with your keyboard.";
  }
});

function show() {
  box.hidden = !value.id;
  share.textContent = value.shared ? "New link" : "Share …";
  stop.hidden = !value.shared;
  row.hidden = !link;
  field.value = link;
  words.textContent = !value.shared ? "Only you and whoever runs this page can read this. " + MEANS
    : link ? MEANS : "This is shared. Its link was shown when it was made; a new one takes its place.";
  said.textContent = value.said || "";
}

function update() {
  const before = value, focused = box.contains(document.activeElement);
  value = JSON.parse(props.value);
  asking = false;
  box.removeAttribute("aria-busy");
  const same = before.id === value.id && before.kind === value.kind;
  link = value.token ? address(value) : "";
  show();
  if (same && before.shared !== value.shared) {
    said.textContent = value.shared ? "Shared: copy the link now." : "The link does not work any more.";
    document.dispatchEvent(new CustomEvent("mars:shared"));
  }
  if (focused && same) (link ? field : share).focus({ preventScroll: true });
}
// What was stopped in "Your data" is not shared here either.
const heard = ({ detail }) => {
  if (!element.isConnected) return document.removeEventListener("mars:shares", heard);
  const shared = detail.includes(value.kind + "/" + value.id);
  if (!value.id || shared === value.shared) return;
  value = { ...value, shared };
  if (!shared) link = "";
  show();
};
document.addEventListener("mars:shares", heard);
watch("value", update);
update();
