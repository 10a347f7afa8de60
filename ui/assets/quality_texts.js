// Both texts of a prompt: what both have, and from the mark on what only one has; scrolled to the mark. Written with textContent.
const box = element.querySelector(".mars-quality-texts"), title = box.querySelector("h2"), facts = box.querySelector("p");
const content = box.querySelector(".mars-quality-open");

function side({ title: name, same, rest }) {
  const node = make("figure", "mq-side"), text = make("pre");
  text.append(make("span", "", same), rest ? make("mark", "", rest) : make("mark", "mq-end", "ends here"));
  text.tabIndex = 0;
  node.append(make("figcaption", "", name), text);
  return node;
}

function shown({ prompt, reference, note, sides, comparison, runs }) {
  const parts = [make("pre", "mq-prompt", prompt)];
  if (reference) parts.push(make("p", "mq-lead", "Reference"), make("pre", "mq-prompt", reference));
  if (note) parts.push(make("p", "mq-note", note));
  if (sides.length) {
    const both = make("div", "mq-sides");
    both.append(...sides.map(side));
    parts.push(both);
  }
  if (comparison) {
    const open = make("button", "mars-small", "Open in History, token by token");
    open.type = "button";
    open.addEventListener("click", () => document.dispatchEvent(new CustomEvent("mars:open", { detail: { comparison, runs } })));
    parts.push(open);
  }
  return parts;
}

function update() {
  const value = JSON.parse(props.value);
  box.hidden = !value.title;
  title.textContent = value.title;
  facts.textContent = value.facts;
  content.replaceChildren(...(value.title ? shown(value) : []));
  for (const mark of content.querySelectorAll("mark")) mark.parentElement.scrollTop = mark.offsetTop - mark.parentElement.offsetTop - 60;
}
watch("value", update);
update();
