"""Medians, quartiles and exponents of samples of ``bench.growth``, its report and its plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import linear_regression, median

from bench.common.report import Report, Spread, Table, spread
from evaluation.report.document.blocks import Axis, Drawing, Look, Mark, Panel

NOTE = (
    "time of a token: decoding alone, prefill apart. Attention over n positions costs O(n) a token and O(n²) in total: with the context "
    "the time of a token may grow linearly, that of the prefill superlinearly"
)
MEMORY = "peak memory: above that of the process before the run, with the pairs loaded; on a CPU its resident set, in a separate process"
PREFILL = "ms of prefill"
PANEL, LEFT, RIGHT, TOP, BOTTOM, LEGEND = 440, 58, 426, 30, 250, 310  # pixels of a plot
COLOURS = ("#D55E00", "#3D8FD1", "#009E73", "#B3872B")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run at one point. ``decode_s`` is the wall time without the prefill."""

    decode_s: float
    prefill_s: float
    tokens: int
    steps: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Measurements along one axis. ``samples`` and ``peaks`` (bytes above the process before its run) by point."""

    name: str
    title: str
    axis: str
    xs: tuple[int, ...]
    samples: tuple[tuple[Sample, ...], ...]
    peaks: tuple[tuple[int, ...], ...]
    prefill: bool  # whether the time of the prefill grows with this axis, and is fitted


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The b of y = a·xᵇ by least squares on the logarithms; nan for fewer than two points or values that have no logarithm."""
    if len(xs) < 2 or min(*xs, *ys) <= 0:
        return math.nan
    return linear_regression([math.log(x) for x in xs], [math.log(y) for y in ys]).slope


def upper_half(values: Sequence[float]) -> Sequence[float]:
    """The last half of the points, the middle one included."""
    return values[len(values) // 2 :]


def series(curve: Curve) -> dict[str, list[Spread]]:
    """The quantities by name, at every point: times first, the peak memory last."""
    return {
        "ms a token": [spread(1000 * one.decode_s / one.tokens for one in each) for each in curve.samples],
        "ms a step": [spread(1000 * one.decode_s / one.steps for one in each) for each in curve.samples],
        PREFILL: [spread(1000 * one.prefill_s for one in each) for each in curve.samples],
        "peak memory, MB": [spread(peak / 1e6 for peak in each) for each in curve.peaks],
    }


def fitted(curve: Curve) -> dict[str, list[Spread]]:
    """The plotted quantities: without the prefill if it does not grow with the axis."""
    return {name: values for name, values in series(curve).items() if curve.prefill or name != PREFILL}


def exponents(curve: Curve) -> list[tuple[str, float, float]]:
    """Name of the quantity, exponent over the upper half of the points, exponent over all of them."""
    medians = {name: [value.median for value in values] for name, values in fitted(curve).items()}
    return [
        (name, exponent(upper_half(curve.xs), upper_half(ys)), exponent(curve.xs, ys)) for name, ys in medians.items()
    ]


def report(curves: Sequence[Curve], pairs: str, stem: str) -> Report:
    """``stem``: of the names of the plots; ``pairs``: what was measured on."""
    runs, peaks = len(curves[0].samples[0]), len(curves[0].peaks[0])
    method = (
        f"medians of {runs} interleaved runs (memory: {peaks}), quartiles in brackets; the exponent b of y = a·xᵇ by least squares"
        " on logarithms"
    )
    tables = [table for curve in curves for table in _tables(curve, f"{stem}-{curve.name}.svg")]
    data = {"curves": [asdict(curve) for curve in curves]}
    return Report("Growth", [pairs, NOTE, MEMORY, method], tables=tables, data=data)


def _tables(curve: Curve, image: str) -> tuple[Table, Table]:
    """The medians and quartiles; the exponents with the plot."""
    columns, upper = series(curve), upper_half(curve.xs)
    taus = [median(sample.tokens / sample.steps for sample in each) for each in curve.samples]
    rows = [
        (f"{x:,}", *(f"{v.median:.3g} ({v.low:.3g}–{v.high:.3g})" for v in values), f"{tau:.2f}")
        for x, tau, *values in zip(curve.xs, taus, *columns.values(), strict=True)
    ]
    ranges = (f"{upper[0]:,} to {upper[-1]:,}", f"{curve.xs[0]:,} to {curve.xs[-1]:,}")
    return (
        Table((curve.axis, *columns, "τ"), rows, curve.title),
        Table(
            ("exponent of", *ranges), [(name, f"{high:.2f}", f"{whole:.2f}") for name, high, whole in exponents(curve)],
            text=[f"![{curve.title}]({image})"],
        ),
    )  # fmt: skip


def drawing(curve: Curve) -> Drawing:
    """Times, and peak memory: two panels with logarithmic axes, dots for medians, bars for quartiles."""
    lines = [
        (Look(colour), name, values) for colour, (name, values) in zip(COLOURS, fitted(curve).items(), strict=False)
    ]
    panels = (_panel(curve, "ms", lines[:-1], 0), _panel(curve, "MB", lines[-1:], PANEL))
    legend = tuple(Mark(look, LEFT + 170 * at, LEGEND, name) for at, (look, name, _) in enumerate(lines))
    return Drawing(curve.title, 2 * PANEL, LEGEND + 15, (TOP, BOTTOM), panels, legend)


def _panel(curve: Curve, unit: str, lines: Sequence[tuple[Look, str, list[Spread]]], left: int) -> Panel:
    ends = [end for *_, values in lines for value in values for end in (value.low, value.high)]
    x = _axis(curve.axis, curve.xs, left + LEFT, left + RIGHT, curve.xs)
    y = _axis(unit, [end for end in ends if end > 0] or [1.0], BOTTOM, TOP)
    marks, paths = list[Mark](), list[tuple[str, str]]()
    for look, name, values in lines:
        places = [
            (_at(x, at), *(_at(y, one) for one in (v.median, v.low, v.high)))
            for at, v in zip(curve.xs, values, strict=True)
        ]
        marks += [Mark(look, at, middle, name, f"M{at:.1f} {low:.1f}V{high:.1f}") for at, middle, low, high in places]
        paths.append((look.colour, "M" + "L".join(f"{at:.1f} {middle:.1f}" for at, middle, *_ in places)))
    return Panel(left, left + RIGHT, x, y, tuple(marks), tuple(paths))


def _axis(name: str, values: Sequence[float], start: float, end: float, ticks: Iterable[float] = ()) -> Axis:
    """A logarithmic axis with a margin of a quarter of a decade at both ends; by default ticks at 1, 2 and 5 times the powers of ten."""
    axis = Axis(name, math.log10(min(values)) - 0.25, math.log10(max(values)) + 0.25, start, end)
    powers = range(math.floor(axis.low), math.ceil(axis.high))
    round_ones = (digit * 10.0**power for power in powers for digit in (1, 2, 5))
    found = ticks or [tick for tick in round_ones if axis.low <= math.log10(tick) <= axis.high]
    return axis._replace(ticks=tuple((_at(axis, tick), _short(tick)) for tick in found))


def _at(axis: Axis, value: float) -> float:
    """Position in pixels; values without a logarithm are at the low end."""
    return axis.at(math.log10(value)) if value > 0 else axis.start


def _short(value: float) -> str:
    """4096 as 4k; the unit of contexts is 1024, of other counts 1000."""
    return f"{value / (1024 if value % 1024 == 0 else 1000):g}k" if value >= 1000 else f"{value:g}"
