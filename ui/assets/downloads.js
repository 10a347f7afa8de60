// Links to downloads, in groups: all comparisons, those that were found, the one that is open.
const box = element.querySelector(".mars-downloads");
function links({ title, files, query }) {
  const group = document.createElement("p"), head = document.createElement("span");
  head.textContent = title;
  group.append(head, ...files.map((file) => {
    const link = document.createElement("a");
    link.href = "downloads/" + file + query;
    link.download = file;
    link.textContent = file;
    return link;
  }));
  return group;
}
function update() { box.replaceChildren(...JSON.parse(props.value).groups.map(links)); }
watch("value", update);
update();
