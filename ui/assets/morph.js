let typing = 0; // while a visitor types in a search field, which is left alone: the timer of its search

// What replaces the content: nodes stay where they can, so that focus, scroll positions and open details survive.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName)
    return old.replaceWith(fresh);
  if (old.nodeType !== Node.ELEMENT_NODE)
    return old.data !== fresh.data ? void (old.data = fresh.data) : undefined;
  const kept = "keep" in old.dataset && "keep" in fresh.dataset;
  const own = (name) =>
    name === "open" || (kept && ["hidden", "aria-expanded", "value", "checked"].includes(name));
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !own(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value && !own(name)) old.setAttribute(name, value);
  children(old, fresh);
  if (kept || (typing && old.type === "search")) return;
  if (old.type === "number" && old.valueAsNumber === fresh.valueAsNumber) return; // as it was typed: 0.90
  for (const name of ["checked", "value"])
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName) && old[name] !== fresh[name])
      old[name] = fresh[name];
}

function children(old, fresh) {
  const [here, wanted] = [[...old.childNodes], [...fresh.childNodes]];
  wanted.forEach((node, index) => (here[index] ? morph(here[index], node) : old.append(node)));
  here.slice(wanted.length).forEach((node) => node.remove());
}
