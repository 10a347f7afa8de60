// Saves a chart of a report: as it is drawn, as an image on the ground of the theme, or its numbers.
async function image(svg, { width, height }) {
  const picture = new Image(),
    canvas = document.createElement("canvas"),
    context = canvas.getContext("2d");
  picture.src = URL.createObjectURL(svg);
  await picture.decode();
  URL.revokeObjectURL(picture.src);
  Object.assign(canvas, { width: 2 * width.baseVal.value, height: 2 * height.baseVal.value });
  context.fillStyle = getComputedStyle(element).getPropertyValue("--background-fill-primary");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done));
}

box.addEventListener("click", async ({ target }) => {
  const { format } = target.dataset,
    figure = target.closest("[data-csv]");
  if (!format || !figure) return;
  const drawing = figure.querySelector("svg"),
    svg = new Blob([new XMLSerializer().serializeToString(drawing)], { type: "image/svg+xml" });
  const csv = new Blob([JSON.parse(figure.dataset.csv)], { type: "text/csv;charset=utf-8" });
  const content = format === "csv" ? csv : format === "svg" ? svg : await image(svg, drawing);
  marsSave(content, `mars-${figure.dataset.name}.${format}`);
});
