let typing = 0; // while a visitor types in a search field, which is left alone: the timer of its search

// What replaces the content: nodes stay where they can, so that focus, scroll positions and open details survive.
function morph(old, next) {
  const drawn = old.dataset && "figure" in old.dataset; // what Plotly drew in it stays (figure.js)
  const another = drawn && old.dataset.name !== next.dataset?.name;
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || another)
    return old.replaceWith(next);
  if (old.nodeType !== Node.ELEMENT_NODE)
    return old.data !== next.data ? void (old.data = next.data) : undefined;
  const keeps = "keep" in old.dataset && old.dataset.keep === next.dataset.keep;
  const changed = old.value !== old.defaultValue || old.checked !== old.defaultChecked;
  const { value, checked } = next; // before its children, a text area's text and a menu's options, may move
  const isUserState = (name) =>
    name === "open" || (keeps && ["hidden", "aria-expanded"].includes(name));
  for (const { name } of [...old.attributes])
    if (!next.hasAttribute(name) && !isUserState(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes)
    if (old.getAttribute(name) !== value && !isUserState(name)) old.setAttribute(name, value);
  if (!drawn) children(old, next);
  if ((keeps && changed) || (typing && old.type === "search")) return;
  if (old.type === "number" && old.valueAsNumber === next.valueAsNumber) return; // as it was typed: 0.90
  if (!/^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName)) return;
  if (old.checked !== checked) old.checked = checked;
  if (old.value !== value) old.value = value;
}

function children(old, next) {
  const [here, wanted] = [[...old.childNodes], [...next.childNodes]];
  wanted.forEach((node, index) => (here[index] ? morph(here[index], node) : old.append(node)));
  here.slice(wanted.length).forEach((node) => node.remove());
}
