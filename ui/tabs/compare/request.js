// Says where the result below is not that of the prompt and the settings above. The value is JSON: what it was asked for with.
const note = element.firstElementChild;

// Of fields that both have; numbers as numbers, however they were typed. Lanes in any order; more of them on one side are not compared.
const within = (few, many) =>
  few.length > many.length || few.every((one) => many.some((other) => same(one, other)));
function same(one, other) {
  if (Array.isArray(one)) return within(one, other) && within(other, one);
  if (!one || typeof one !== "object") return one === other || Number(one) === Number(other);
  return Object.keys(one).every((name) => !(name in other) || same(one[name], other[name]));
}

function draw() {
  if (!props.value) return;
  const { prompt, values } = JSON.parse(props.value),
    now = document.querySelector("#prompt textarea"),
    settings = document.querySelector("#compare-settings .mars-settings");
  const words =
    now && now.value !== prompt
      ? "another prompt"
      : same({ ...values, at: 0 }, { ...settings?.values, at: 0 })
        ? ""
        : "other settings";
  note.hidden = !words;
  note.textContent = words && `The result below is of ${words}`;
}

marsListen(element, "mars:settings", document, () => requestAnimationFrame(draw));
watch("value", draw);
draw();
