// Links to this sweep as CSV.
const box = element.querySelector(".mars-downloads");
function update() {
  const { sweep, files, share } = JSON.parse(props.value);
  box.replaceChildren(...(sweep ? files : []).map((file) => {
    const link = document.createElement("a");
    link.href = "downloads/" + file + "?sweep=" + encodeURIComponent(sweep) + (share ? "&share=" + encodeURIComponent(share) : "");
    link.download = file;
    link.textContent = file;
    return link;
  }));
}
watch("value", update);
update();
