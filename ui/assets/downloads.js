// Links to the downloads: all comparisons, and the one that is open.
const box = element.querySelector(".mars-downloads");
function links(title, files, query) {
  const head = document.createElement("span");
  head.textContent = title;
  return [head, ...files.map((file) => {
    const link = document.createElement("a");
    link.href = "downloads/" + file + query;
    link.download = file;
    link.textContent = file;
    return link;
  })];
}
function update() {
  const { comparison, files } = JSON.parse(props.value);
  const one = comparison ? links("This comparison:", files, "?comparison=" + encodeURIComponent(comparison)) : [];
  box.replaceChildren(...links("Download all:", files, ""), ...one);
}
watch("value", update);
update();
