// Numbers as display/format.py writes them: three significant digits, a typographic minus, a dash for nan and for a count below 0. A test holds both together.
const thousands = (integer) => integer.replace(/\B(?=(\d{3})+$)/g, ",");

// The digits of |value| rounded once to so many, half to even as Python does, and the power of ten of the first one.
function significant(value, digits) {
  const write = (size) =>
    Math.abs(value)
      .toExponential(size - 1)
      .split("e");
  let [mantissa, power] = write(digits);
  const exact = write(100)[0].replace(".", "");
  if (
    exact[digits] === "5" &&
    !/[1-9]/.test(exact.slice(digits + 1)) &&
    Number(exact[digits - 1]) % 2 === 0
  ) {
    mantissa = exact.slice(0, digits);
    power = write(100)[1];
  }
  return [mantissa.replace(".", ""), Number(power)];
}

function number(value, digits = 3) {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  if (value === 0) return "0";
  const [text, power] = significant(value, digits),
    sign = value < 0 ? "−" : "";
  if (power < -4 || power >= Math.max(7, digits)) {
    const size = String(Math.abs(power)).padStart(2, "0");
    return (
      sign +
      text[0] +
      (digits > 1 ? "." + text.slice(1) : "") +
      "e" +
      (power < 0 ? "−" : "+") +
      size
    );
  }
  if (power < 0) return sign + "0." + "0".repeat(-power - 1) + text;
  const integer = thousands(text.slice(0, power + 1).padEnd(power + 1, "0")),
    rest = text.slice(power + 1);
  return sign + (rest ? integer + "." + rest : integer);
}

const count = (value) => (value < 0 ? "–" : thousands(String(value)));
const share = (value) => (Number.isNaN(value) ? "–" : number(100 * value) + " %");

function duration(seconds) {
  if (Number.isNaN(seconds)) return "–";
  return Math.abs(seconds) < 0.9995 ? number(1000 * seconds) + " ms" : number(seconds) + " s";
}
