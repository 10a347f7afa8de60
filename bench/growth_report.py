"""Samples of ``bench.growth`` to numbers, Markdown and SVG: medians, quartiles, exponents. Loads no model and opens no file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression, median, quantiles
from xml.sax.saxutils import escape, quoteattr

PANEL, HEIGHT, LEFT, TOP, BASE, INSIDE = 390, 250, 48, 34, 212, 320  # pixels; INSIDE: width of the plot in its panel
GREY, GRID = "#7A7F88", "#7A7F8840"
NOTE = (
    "time of a token: decoding alone, prefill apart. Attention over n positions costs O(n) a token and O(n²) in total: with the context "
    "the time of a token may grow linearly, that of the prefill superlinearly"
)
MEMORY = "peak memory: above what the same process held before the run, pairs loaded; on a CPU its resident set, in a process of its own"
COLOURS = ("#D55E00", "#3D8FD1", "#009E73")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run at one point. ``decode_s`` is the wall time without the prefill."""

    decode_s: float
    prefill_s: float
    tokens: int
    steps: int


@dataclass(frozen=True, slots=True)
class Curve:
    """What was measured along one axis. ``samples`` and ``peaks`` (bytes above the process before its run) by point."""

    name: str
    title: str
    axis: str
    xs: tuple[int, ...]
    samples: tuple[tuple[Sample, ...], ...]
    peaks: tuple[tuple[int, ...], ...]
    prefill: bool  # whether the time of the prefill grows with this axis, and is fitted


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its quartiles."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity along an axis, in the unit that its name says."""

    name: str
    values: tuple[Spread, ...]


def spread(values: Sequence[float]) -> Spread:
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    return Spread(middle, low, high)


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The b of y = a·xᵇ by least squares on the logarithms; nan for fewer than two points or values that have no logarithm."""
    if len(xs) < 2 or min(*xs, *ys) <= 0:
        return math.nan
    return linear_regression([math.log(x) for x in xs], [math.log(y) for y in ys]).slope


def upper_half(values: Sequence[float]) -> Sequence[float]:
    """The last half of the points, the middle one included."""
    return values[len(values) // 2 :]


def series(curve: Curve) -> tuple[Series, ...]:
    """The quantities that are fitted and drawn, times first, the peak memory last."""
    times = [
        Series("ms a token", tuple(spread([1000 * s.decode_s / s.tokens for s in each]) for each in curve.samples)),
        Series("ms a step", tuple(spread([1000 * s.decode_s / s.steps for s in each]) for each in curve.samples)),
        Series("ms of prefill", tuple(spread([1000 * s.prefill_s for s in each]) for each in curve.samples)),
    ]
    return (*times, Series("peak memory, MB", tuple(spread([peak / 1e6 for peak in each]) for each in curve.peaks)))


def exponents(curve: Curve) -> list[tuple[str, float, float]]:
    """Name of the quantity, exponent over the upper half of the points, exponent over all of them."""
    rows = []
    for one in _fitted(curve):
        ys = [value.middle for value in one.values]
        rows.append((one.name, exponent(upper_half(curve.xs), upper_half(ys)), exponent(curve.xs, ys)))
    return rows


def _fitted(curve: Curve) -> list[Series]:
    return [one for one in series(curve) if curve.prefill or one.name != "ms of prefill"]


def report(curves: Sequence[Curve], facts: Mapping[str, str], pairs: str, stem: str) -> str:
    """The whole result as Markdown. ``stem``: of the names of the plots; ``pairs``: what was measured on."""
    repetitions = len(curves[0].samples[0]), len(curves[0].peaks[0])
    lines = [
        "# Growth",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        f"- {pairs}",
        f"- {NOTE}",
        f"- {MEMORY}",
    ]
    lines.append(
        f"- medians of {repetitions[0]} interleaved runs (memory: {repetitions[1]}), quartiles in brackets; the exponent b of"
    )
    lines += ["  y = a·xᵇ by least squares on logarithms", ""]
    for curve in curves:
        lines += section(curve, f"{stem}-{curve.name}.svg")
    return "\n".join(lines)


def section(curve: Curve, image: str) -> list[str]:
    """Markdown lines: the table, the exponents, the plot. Medians, quartiles in brackets."""
    columns = series(curve)
    taus = [median(sample.tokens / sample.steps for sample in each) for each in curve.samples]
    upper = upper_half(curve.xs)
    lines = [f"## {curve.title}", "", f"| {curve.axis} | " + " | ".join(one.name for one in columns) + " | τ |"]
    lines.append("|---:|" + "---:|" * (len(columns) + 1))
    for at, x in enumerate(curve.xs):
        cells = [f"{v.middle:.3g} ({v.low:.3g}–{v.high:.3g})" for v in (one.values[at] for one in columns)]
        lines.append(f"| {x:,} | " + " | ".join(cells) + f" | {taus[at]:.2f} |")
    lines += ["", f"| exponent of | {upper[0]:,} to {upper[-1]:,} | {curve.xs[0]:,} to {curve.xs[-1]:,} |"]
    lines += ["|---|---:|---:|"]
    lines += [f"| {name} | {high:.2f} | {whole:.2f} |" for name, high, whole in exponents(curve)]
    return [*lines, "", f"![{curve.title}]({image})", ""]


def svg(curve: Curve) -> str:
    """Two panels with logarithmic axes: times, and peak memory. A dot a point, a bar from quartile to quartile."""
    *times, memory = _fitted(curve)
    panels = _panel(curve, times, 0) + _panel(curve, [memory], PANEL)
    size = f'width="{2 * PANEL}" height="{HEIGHT}" viewBox="0 0 {2 * PANEL} {HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(curve.title)}>'
        f'<g font-family="sans-serif" font-size="11" fill="{GREY}">{panels}</g></svg>\n'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """A logarithmic axis: values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        place = math.log(max(value, self.low) / self.low) / (math.log(self.high / self.low) or 1)
        return self.start + place * (self.end - self.start)


def _panel(curve: Curve, drawn: Sequence[Series], left: int) -> str:
    x = _Scale(curve.xs[0], curve.xs[-1], left + LEFT + 12, left + LEFT + INSIDE - 12)
    floor, ceiling = _range([edge for one in drawn for v in one.values for edge in (v.low, v.high)])
    y = _Scale(floor, ceiling, BASE, TOP)
    parts = [f'<path d="M{left + LEFT} {BASE}h{INSIDE}M{left + LEFT} {BASE}V{TOP}" stroke="{GREY}" fill="none"/>']
    parts += [_label(x.at(value), BASE + 14, _short(value)) for value in curve.xs]
    parts.append(_label(left + LEFT + INSIDE / 2, BASE + 30, curve.axis))
    for tick in _ticks(floor, ceiling):
        parts.append(f'<path d="M{left + LEFT} {y.at(tick):.1f}h{INSIDE}" stroke="{GRID}"/>')
        parts.append(_label(left + LEFT - 5, y.at(tick) + 4, _short(tick), "end"))
    for at, one in enumerate(drawn):
        colour = COLOURS[at % len(COLOURS)]
        parts.append(_label(left + LEFT + 4 + 100 * at, TOP - 14, one.name, "start", colour))
        parts += _line([x.at(value) for value in curve.xs], one.values, y, colour)
    return "".join(parts)


def _line(places: Sequence[float], values: Sequence[Spread], y: _Scale, colour: str) -> list[str]:
    path = " ".join(f"{place:.1f},{y.at(v.middle):.1f}" for place, v in zip(places, values, strict=True))
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}"/>']
    for place, v in zip(places, values, strict=True):
        parts.append(
            f'<path d="M{place:.1f} {y.at(v.low):.1f}V{y.at(v.high):.1f}" stroke="{colour}" stroke-width="3"/>'
        )
        parts.append(f'<circle cx="{place:.1f}" cy="{y.at(v.middle):.1f}" r="3" fill="{colour}"/>')
    return parts


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten, or halves of them, around all values that have a logarithm."""
    positive = [value for value in values if value > 0] or [1.0]
    steps = [math.floor(2 * math.log10(min(positive)) - 1e-9), math.ceil(2 * math.log10(max(positive)) + 1e-9)]
    return 10 ** (steps[0] / 2), 10 ** (steps[1] / 2)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten within the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def _label(x: float, y: float, text: str, anchor: str = "middle", colour: str = GREY) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _short(value: float) -> str:
    """4096 as 4k; the unit of contexts is 1024, of other counts 1000."""
    if value >= 1000:
        return f"{value / (1024 if value % 1024 == 0 else 1000):g}k"
    return f"{value:g}"
