// A panel: shows HTML that Python escaped, and reports what a visitor does in it. The attributes are explained in ui/kit/panel.py.
// morph.js comes before.
const box = element.firstElementChild;
const QUIET_MS = 250; // after the last key in a search field
const DATE_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const sent = {}; // event → its data, where the latest counts
let newest = 0; // time of the newest value
const marks = (window.marsMarks ??= {}); // what was scrolled to or focused last, also by a panel that was taken away since

function send(node, more) {
  const { event, value, pending } = node.dataset,
    data = value ? JSON.parse(value) : {};
  const status = box.querySelector('[role="status"]');
  if (pending && status) status.textContent = pending;
  if (event.startsWith("mars:"))
    document.dispatchEvent(
      new CustomEvent(event, { detail: { scope: props.scope, ...data, ...more } }),
    );
  else if (props.latest) trigger(event, marsLatest((sent[event] ??= {}), { ...data, ...more }));
  else trigger(event, more ? { ...data, ...more } : data);
}

function submit(form, button) {
  clearTimeout(typing);
  typing = 0;
  send(form, {
    ...Object.fromEntries(new FormData(form, button)),
    zone: new Date().getTimezoneOffset(),
  });
  if ("confirm" in form.dataset) toggle(form, false);
}

function toggle(target, visible = target.hidden) {
  const button = box.querySelector(`[data-toggle="${target.id}"][aria-expanded]`);
  target.hidden = !visible;
  button.setAttribute("aria-expanded", String(visible));
  if (!visible) [target, ...target.querySelectorAll("form")].forEach((node) => node.reset?.());
  check();
  (visible ? target.querySelector("input") : button)?.focus();
}

async function copy(button) {
  const field = button.value ? null : button.parentElement.querySelector("input"),
    status = box.querySelector('[role="status"]');
  field?.select();
  const copied =
    (await navigator.clipboard?.writeText(field?.value ?? button.value).then(
      () => true,
      () => false,
    )) ||
    (field && document.execCommand("copy"));
  status.textContent = copied
    ? "Copied."
    : `Copy the ${field ? "marked link" : "page’s address"} with your keyboard.`;
}

function check() {
  box.querySelectorAll("form[data-confirm]").forEach((form) => {
    form.querySelector('[type="submit"]').disabled = !form.checkValidity();
  });
}

const calm = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");
// The focus is in this panel, or what had it is gone.
const lost = (node = document.activeElement) =>
  !node || node === document.body || !node.getClientRects().length || box.contains(node);

function isNew(kind, node) {
  const mark = node.dataset[kind],
    name = kind + (node.dataset.target || node.className),
    changed = mark && marks[name] !== mark;
  marks[name] = mark;
  return changed;
}

// A refusal comes into sight: the field that it names (settings/wrong.js), else its sentence.
function tell(strip) {
  const detail = strip.querySelector("p").textContent,
    failed = new CustomEvent("mars:failed", { cancelable: true, detail });
  if (element.checkVisibility() && document.dispatchEvent(failed))
    strip.scrollIntoView({ block: "nearest", behavior: calm() });
}

function update() {
  const content = document.createElement("template"),
    key = box.contains(document.activeElement) && document.activeElement.dataset.key;
  const away = lost();
  content.innerHTML = props.value; // escaped by ui/kit/panel.py
  const [first] = content.content.childNodes,
    made = first?.nodeType === Node.COMMENT_NODE ? Number(first.data) : newest;
  if (made < newest) return;
  newest = made;
  content.content.querySelectorAll("time[datetime]").forEach((time) => {
    time.textContent = DATE_TIME.format(new Date(time.dateTime));
  });
  content.content.querySelectorAll("[data-address]").forEach((field) => {
    const names = new URLSearchParams(JSON.parse(field.dataset.address)),
      link = `${location.origin}${location.pathname}?${names}`;
    const frame = `<iframe src="${link}&embed" title="MARS Playground" width="100%" height="720"></iframe>`;
    field.setAttribute("value", "frame" in field.dataset ? frame : link);
  });
  children(box, content.content);
  window.marsDraw?.(box, props.scope);
  const strip = box.querySelector(":scope > .mars-strip");
  if (strip) {
    const { state } = strip.dataset,
      begins = document.body.dataset[props.scope] !== state;
    document.body.dataset[props.scope] = state; // for the style sheet: :has would restyle every token with each frame
    if (begins) document.dispatchEvent(new Event(`mars:${props.scope}-${state}`));
    if (state === "failed") tell(strip);
  }
  check();
  if (key && document.activeElement.dataset.key !== key) {
    const keyed = [...box.querySelectorAll("[data-key]")],
      [stem] = key.split("/");
    (
      keyed.find((node) => node.dataset.key === key) ||
      keyed.find((node) => node.dataset.key.split("/")[0] === stem) ||
      keyed[0]
    )?.focus({ preventScroll: true });
  }
  box.querySelectorAll("[data-focus]").forEach((node) => {
    if (isNew("focus", node) && away) node.focus({ preventScroll: true });
  });
  box.querySelectorAll("[data-scroll]").forEach((node) => {
    if (!isNew("scroll", node)) return;
    const { target } = node.dataset;
    setTimeout(() => {
      const place = target ? document.querySelector(target) : node,
        top = place?.getBoundingClientRect().top;
      const begins = top >= 0 && top < innerHeight / 4; // in sight, under the title of the page
      if (!begins) place?.scrollIntoView({ block: target ? "start" : "center", behavior: calm() });
      if (!place || !target || !box.contains(document.activeElement)) return;
      place.tabIndex = -1; // the keys go on there
      place.focus({ preventScroll: true });
    }, 80);
  });
}

// A panel that another one points to: opened, in sight, focused.
function reveal() {
  if (!window.marsReveal || !element.closest(window.marsReveal)) return;
  window.marsReveal = "";
  const button = box.querySelector("[data-toggle]");
  toggle(box.querySelector("#" + button.dataset.toggle), true);
  setTimeout(() => {
    element.scrollIntoView({ block: "start", behavior: calm() });
    button.focus({ preventScroll: true });
  }, 250);
}

function press(node) {
  if ("copy" in node.dataset) return copy(node);
  if (node.dataset.toggle) toggle(box.querySelector("#" + node.dataset.toggle));
  if (node.dataset.reveal) window.marsReveal = node.dataset.reveal;
  if (node.dataset.event) send(node);
  if (node.dataset.reveal) document.dispatchEvent(new CustomEvent("mars:reveal"));
}

const ACTIVE = "[data-event]:not(form, input), [data-toggle], [data-copy]";
box.addEventListener("click", (event) => {
  const node = event.target.closest(ACTIVE);
  if (node && !node.disabled) press(node);
});
box.addEventListener("focusin", ({ target }) => {
  if (target.readOnly) target.select();
});
box.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.dataset.event && event.target.checkValidity())
    submit(event.target, event.submitter);
});
box.addEventListener("input", ({ target }) => {
  check();
  clearTimeout(typing);
  typing =
    target.type === "search" && target.form && "live" in target.form.dataset
      ? setTimeout(() => submit(target.form), QUIET_MS)
      : 0;
});
box.addEventListener("change", ({ target }) => {
  if (target.dataset.event) send(target, { checked: target.checked });
  else if (target.type !== "search" && target.form && "live" in target.form.dataset)
    submit(target.form);
});
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
box.addEventListener("keydown", (event) => {
  const { target, key } = event,
    group = target.closest("[data-arrows]");
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (group && STEPS[key]) {
    const buttons = [...group.querySelectorAll("button")];
    buttons[(buttons.indexOf(target) + STEPS[key] + buttons.length) % buttons.length].focus();
    event.preventDefault();
  } else if (["Enter", " "].includes(key) && target.matches('[role="button"][data-event]')) {
    press(target);
    event.preventDefault();
  } else if (key === "Escape" && target.closest("form[data-confirm]")) {
    toggle(target.closest("form"), false);
  } else if (!target.matches("input, textarea, select")) {
    [...box.querySelectorAll("[data-hotkey]")]
      .find((node) => node.dataset.hotkey === key && node.getClientRects().length)
      ?.click();
  }
});

for (const name of ["mars:shared", "mars:account"])
  marsListen(element, name, document, () =>
    box.querySelectorAll(`[data-on="${name}"]`).forEach((node) => send(node)),
  );
marsListen(element, "mars:reveal", document, reveal);
watch("value", update);
update();
reveal();
box
  .querySelectorAll("[data-ready]")
  .forEach(({ dataset }) =>
    setTimeout(() => document.dispatchEvent(new CustomEvent(dataset.ready)), 100),
  );
