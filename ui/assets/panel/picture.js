// A comparison as one picture, light on white: prompt, sentence, numbers, texts and the step that the page shows, drawn as text on a
// canvas. Loads nothing but the values (ui/report/downloads.py); panel.js comes before.
const WIDE = 1200,
  PAD = 40,
  LINES = 14, // of a text; what is longer is cut
  INK = "#1b1e24",
  SOFT = "#5b6270",
  LINED = { relaxed: ["#a84a00", 0.85], rejected: ["#a3293a", 0.45] }, // ink, and where in the line its stroke is
  FONT = "system-ui, sans-serif";

box.addEventListener("click", async ({ target }) => {
  const { picture } = target.dataset,
    status = box.querySelector('[role="status"]');
  if (!picture) return;
  try {
    const answer = await fetch(picture);
    if (!answer.ok) throw new Error(await answer.text());
    const values = { ...(await answer.json()), step: step() },
      canvas = document.createElement("canvas");
    canvas.width = 2 * WIDE;
    canvas.height = 2 * compose(canvas.getContext("2d"), values); // first to learn how high it is
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    context.fillStyle = "#fff";
    context.fillRect(0, 0, WIDE, canvas.height);
    compose(context, values);
    const blob = await new Promise((done) => canvas.toBlob(done));
    marsSave(blob, `mars-${values.id.slice(0, 8)}.png`);
    status.textContent = "The picture was saved.";
  } catch (error) {
    console.error(error);
    status.textContent = "The picture could not be made.";
  }
});

// What the component of one step shows (ui/token_view/step): the run, the sentence, what was drafted and what the text gained.
function step() {
  const shown = [...document.querySelectorAll(".mars-step")].find((each) => each.checkVisibility());
  if (!shown) return null;
  const said = (name) => shown.querySelector(".mars-s-" + name).textContent,
    chips = (name) => [...shown.querySelectorAll(`.mars-s-${name} .mars-s-chip`)];
  const pieces = (name) =>
    chips(name).flatMap(({ textContent, classList }) => [
      [textContent, classList[1]],
      ["  ", ""],
    ]);
  const run = shown.querySelector(".mars-s-lane").selectedOptions[0]?.textContent || "";
  return {
    title: `One step of ${run}: ${said("words")}`,
    drafted: pieces("draft"),
    gained: pieces("gain"),
  };
}

// Draws everything; returns the height.
function compose(context, { prompt, models, sentence, lanes, step }) {
  const column = (WIDE - 2 * PAD - 32 * (lanes.length - 1)) / lanes.length;
  const plain = (text) => [[text, ""]];
  let y = PAD;
  y = paragraph(context, plain(prompt), PAD, y, WIDE - 2 * PAD, 3, `600 24px ${FONT}`, INK);
  y = paragraph(context, plain(models), PAD, y + 4, WIDE - 2 * PAD, 2, `15px ${FONT}`, SOFT);
  y = paragraph(context, plain(sentence), PAD, y + 16, WIDE - 2 * PAD, 4, `20px ${FONT}`, INK);
  const ends = lanes.map(({ title, pieces, numbers }, lane) => {
    const x = PAD + lane * (column + 32);
    let below = paragraph(context, plain(title), x, y + 24, column, 1, `600 18px ${FONT}`, INK);
    below = paragraph(context, plain(numbers), x, below, column, 3, `15px ${FONT}`, SOFT);
    return paragraph(context, pieces, x, below + 8, column, LINES, `18px ${FONT}`, INK);
  });
  y = Math.max(...ends) + 24;
  if (step) {
    const line = (words, pieces) =>
      paragraph(
        context,
        [[words + "  ", "unread"], ...pieces],
        PAD,
        y,
        WIDE - 2 * PAD,
        3,
        `18px ${FONT}`,
        INK,
      );
    y =
      paragraph(context, plain(step.title), PAD, y, WIDE - 2 * PAD, 2, `600 16px ${FONT}`, INK) + 4;
    y = line("The drafter proposes", step.drafted);
    y = line("The text gains", step.gained) + 20;
  }
  return (
    paragraph(context, plain("MARS Playground"), PAD, y, column, 1, `14px ${FONT}`, SOFT) + PAD / 2
  );
}

// Pieces as lines of at most `width`, each as its kind is: relaxed in orange and underlined, rejected struck out, unread pale; the
// last line ends in … where text is left.
function paragraph(context, pieces, x, top, width, most, font, colour) {
  context.font = font;
  context.textBaseline = "top";
  const height = 1.45 * parseInt(font.match(/\d+px/)[0], 10);
  const room = width - context.measureText("…").width;
  let line = 0,
    left = 0;
  const put = (text, kind) => {
    const [ink, stroke] = LINED[kind] || [kind === "unread" ? SOFT : colour];
    context.fillStyle = ink;
    context.fillText(text, x + left, top + line * height);
    const wide = context.measureText(text).width;
    if (stroke) context.fillRect(x + left, top + (line + stroke) * height, wide, 2);
    left += wide;
  };
  for (const [piece, kind] of pieces)
    for (const part of piece.match(/\n|[^\S\n]+|[^\s]+/g) || [])
      for (const text of fitting(context, part, room)) {
        const wraps = text === "\n" || left + context.measureText(text).width > room;
        if (wraps && line + 1 === most) {
          put("…", "");
          return top + most * height;
        }
        if (wraps) {
          line += 1;
          left = 0;
        }
        if (text !== "\n" && (left || text.trim())) put(text, kind);
      }
  return top + (line + 1) * height;
}

// A word that is wider than a line, in parts.
function* fitting(context, word, room) {
  let part = "";
  for (const character of word) {
    if (part && context.measureText(part + character).width > room) {
      yield part;
      part = "";
    }
    part += character;
  }
  yield part;
}
