// One figure, drawn by Plotly once it is in sight and again when its value or the theme changes; returns what to call when it has.
// The value is one JSON string: {figure, csv, title}. Everything here is written with textContent; what Plotly would read as markup
// was escaped in Python. THEMED: colour → variable of the page; marsLibrary: the promise of Plotly.
window.marsFigure = (element, scope) => {
  const { name, label, width } = element.dataset;
  const box = element.querySelector(".mars-figure"),
    plot = box.querySelector(".mars-plot");
  const caption = box.querySelector("figcaption"),
    note = box.querySelector(".mars-figure-note"),
    tools = box.querySelector(".mars-figure-tools");
  const VALUES = new Set(["x", "y", "z", "base", "text", "customdata", "meta"]); // of traces: no colours in them
  const CONFIG = {
    displayModeBar: false,
    displaylogo: false,
    showTips: false,
    doubleClick: "reset",
    responsive: false,
  };
  const SYSTEM = "system-ui, sans-serif"; // an image knows no font of the page
  const touch = matchMedia("(pointer: coarse)").matches; // there a drag scrolls the page

  const ROUNDS = 5; // a scrollbar that comes and goes must not keep it busy for ever

  let value = null,
    version = 0,
    under = false;
  let drawn = { version: -1, dark: false, width: 0 };

  // One figure a task, so that no chart keeps the page from answering for long.
  function turn() {
    const before = window.marsFigures || Promise.resolve();
    return (window.marsFigures = before.then(() => new Promise((next) => setTimeout(next))));
  }

  const isDark = () => document.body.classList.contains("dark");
  const variable = (name) => getComputedStyle(element).getPropertyValue(name).trim();

  function painted(part, colours) {
    if (typeof part === "string") return colours[part] ?? part;
    if (Array.isArray(part)) return part.map((each) => painted(each, colours));
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(
      Object.entries(part).map(([key, each]) => [
        key,
        VALUES.has(key) ? each : painted(each, colours),
      ]),
    );
  }

  const themed = () =>
    Object.fromEntries(
      Object.entries(THEMED).map(([colour, name]) => [colour, variable(name) || colour]),
    );

  function figure(family, ground) {
    const colours = themed(),
      layout = painted(value.figure.layout, colours);
    const frame = {
      bgcolor: variable("--background-fill-primary"),
      bordercolor: variable("--border-color-accent"),
    };
    layout.font = { ...layout.font, family };
    layout.hoverlabel = {
      ...layout.hoverlabel,
      ...frame,
      font: { family, color: variable("--body-text-color") },
    };
    Object.assign(layout, { paper_bgcolor: ground, plot_bgcolor: "rgba(0,0,0,0)", autosize: true });
    if (touch) layout.dragmode = false;
    return { data: painted(value.figure.data, colours), layout, config: CONFIG };
  }

  // Names the token of a point to the lanes.
  function tell(name, points) {
    const point = points.find(
      ({ data, customdata }) => data.meta?.position !== undefined && customdata,
    );
    const position = point && parseInt(point.customdata[point.data.meta.position], 10);
    if (!(position >= 0)) return;
    document.dispatchEvent(
      new CustomEvent(name, {
        detail: { scope, lane: point.data.meta.lane, position },
      }),
    );
  }

  // Frames the cell of the token that is active in the text of this map's lane; no position: none.
  function spot({ detail }) {
    const { lane, position } = detail;
    const map = value?.figure.data[0];
    if (
      box.dataset.state !== "drawn" ||
      detail.scope !== scope ||
      map?.type !== "heatmap" ||
      map.meta?.lane !== lane
    )
      return;
    const shapes = painted(value.figure.layout.shapes ?? [], themed()),
      column = map.meta.position;
    map.customdata.forEach((row, y) =>
      row.forEach((cell, x) => {
        if (position === null || cell[column] !== String(position)) return;
        const line = { color: variable("--body-text-color"), width: 2 };
        shapes.push({ type: "rect", x0: x - 0.5, x1: x + 0.5, y0: y - 0.5, y1: y + 0.5, line });
      }),
    );
    window.Plotly.relayout(plot, { shapes });
  }

  async function paint(Plotly) {
    const width = plot.clientWidth,
      dark = isDark(),
      renewed = drawn.version !== version;
    if (!value || !width) return;
    if (!renewed && drawn.dark === dark) {
      if (drawn.width !== width) Plotly.Plots.resize(plot);
      drawn.width = width;
      return;
    }
    if (renewed) Plotly.purge(plot);
    drawn = { version, dark, width };
    const { data, layout, config } = figure(variable("--font") || SYSTEM, "rgba(0,0,0,0)");
    await (renewed ? Plotly.newPlot : Plotly.react)(plot, data, layout, config);
    if (renewed) {
      plot.on("plotly_click", ({ points }) => tell("mars:show", points));
      plot.on("plotly_hover", ({ points }) => tell("mars:point", points));
      plot.on("plotly_unhover", () =>
        document.dispatchEvent(new CustomEvent("mars:point", { detail: { scope } })),
      );
    }
    box.dataset.state = "drawn";
  }

  const behind = () =>
    value &&
    plot.clientWidth &&
    (drawn.version !== version || drawn.dark !== isDark() || drawn.width !== plot.clientWidth);

  // Whatever changed: at most one drawing is under way, for a second one would break the first; it goes on until it shows what is newest.
  async function draw() {
    if (!element.isConnected) return leave();
    if (under || !value || !plot.clientWidth) return;
    under = true;
    try {
      const Plotly = await marsLibrary();
      await turn();
      for (let rounds = 0; rounds < ROUNDS && behind(); rounds += 1) await paint(Plotly);
      note.textContent = "";
    } catch (error) {
      box.dataset.state = "failed";
      note.textContent = "This figure could not be drawn; its numbers can be downloaded as CSV.";
      if (error.message !== "no plotly") console.error(error);
    } finally {
      under = false;
    }
  }

  function leave() {
    sizes.disconnect();
    themes.disconnect();
    document.removeEventListener("mars:active", spot);
    window.Plotly?.purge(plot);
  }

  function wrapped(text, columns) {
    const lines = [""];
    for (const word of text.split(" ")) {
      if ((lines.at(-1) + " " + word).length > columns) lines.push("");
      lines.push((lines.pop() + " " + word).trim());
    }
    return lines
      .filter(Boolean)
      .map((line) => line.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"));
  }

  // As an image: on the ground of the theme, with its title.
  async function image(format) {
    const Plotly = await marsLibrary();
    const width = Math.max(plot.clientWidth, 640),
      { data, layout, config } = figure(SYSTEM, variable("--background-fill-primary"));
    const title = wrapped(label + ". " + value.title, width / 6.6),
      above = 17 * title.length + 8;
    layout.height += above;
    layout.margin = { ...layout.margin, t: layout.margin.t + above };
    layout.title = {
      text: title.join("<br>"),
      x: 0,
      xref: "container",
      xanchor: "left",
      y: 1,
      yanchor: "top",
      yref: "container",
      pad: { l: 12, t: 10 },
      font: { size: 13, color: variable("--body-text-color") },
    };
    const link = await Plotly.toImage(
      { data, layout, config },
      { format, width, height: layout.height, scale: format === "png" ? 2 : 1 },
    );
    return (await fetch(link)).blob();
  }

  async function save(format) {
    const content =
      format === "csv"
        ? new Blob([value.csv], { type: "text/csv;charset=utf-8" })
        : await image(format);
    marsSave(content, "mars-" + name + "." + format);
  }

  tools.setAttribute("aria-label", "Download " + label);
  for (const button of tools.children) {
    const { format } = button.dataset;
    button.setAttribute("aria-label", "Download " + label + " as " + format.toUpperCase());
    button.addEventListener("click", () =>
      save(format).catch((error) => {
        console.error(error);
        note.textContent = "The " + format.toUpperCase() + " could not be made.";
      }),
    );
  }

  function update() {
    value = JSON.parse(element.dataset.figure);
    version += 1;
    if (plot.firstChild) window.Plotly?.purge(plot);
    box.dataset.state = "waiting";
    plot.style.minHeight = value.figure.layout.height + "px";
    plot.style.minWidth = width + "px";
    plot.setAttribute("aria-label", label + ". " + value.title);
    caption.textContent = value.title;
    note.textContent = "";
    draw();
  }
  const sizes = new ResizeObserver(draw),
    themes = new MutationObserver(draw);
  sizes.observe(plot);
  themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  document.addEventListener("mars:active", spot);
  return update;
};
// The figures of a document: elements with a value, a name and a label, each drawn again where its value has changed.
window.marsDraw = (root, scope = "") => {
  for (const element of root.querySelectorAll("[data-figure]")) {
    if (element.marsValue === element.dataset.figure) continue;
    element.marsValue = element.dataset.figure;
    (element.marsUpdate ??= marsFigure(element, scope))();
  }
};
