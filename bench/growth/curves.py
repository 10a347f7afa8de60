"""Samples of ``bench.growth`` to medians, quartiles and exponents, and its report. Loads no model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression, median
from typing import Any

from bench.common.report import Report, Spread, Table, spread

NOTE = (
    "time of a token: decoding alone, prefill apart. Attention over n positions costs O(n) a token and O(n²) in total: with the context "
    "the time of a token may grow linearly, that of the prefill superlinearly"
)
MEMORY = "peak memory: above that of the process before the run, with the pairs loaded; on a CPU its resident set, in a process of its own"


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
class Series:
    """One quantity along an axis, in the unit of its name."""

    name: str
    values: tuple[Spread, ...]


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
    for one in fitted(curve):
        ys = [value.median for value in one.values]
        rows.append((one.name, exponent(upper_half(curve.xs), upper_half(ys)), exponent(curve.xs, ys)))
    return rows


def fitted(curve: Curve) -> list[Series]:
    """Without the prefill where it does not grow with the axis."""
    return [one for one in series(curve) if curve.prefill or one.name != "ms of prefill"]


def report(
    curves: Sequence[Curve], facts: Mapping[str, str], pairs: str, stem: str, data: Sequence[Mapping[str, Any]]
) -> Report:
    """``stem``: of the names of the plots; ``pairs``: what was measured on; ``data``: the curves for the JSON file."""
    runs, peaks = len(curves[0].samples[0]), len(curves[0].peaks[0])
    method = (
        f"medians of {runs} interleaved runs (memory: {peaks}), quartiles in brackets; the exponent b of y = a·xᵇ by least squares"
        " on logarithms"
    )
    tables = [table for curve in curves for table in _tables(curve, f"{stem}-{curve.name}.svg")]
    return Report("Growth", facts, [pairs, NOTE, MEMORY, method], tables=tables, data={"curves": data})


def _tables(curve: Curve, image: str) -> tuple[Table, Table]:
    """The medians and quartiles; the exponents with the plot."""
    columns, upper = series(curve), upper_half(curve.xs)
    taus = [median(sample.tokens / sample.steps for sample in each) for each in curve.samples]
    rows = [(f"{x:,}", *(_cell(one.values[at]) for one in columns), f"{taus[at]:.2f}") for at, x in enumerate(curve.xs)]
    exponents_by_range = [(name, f"{high:.2f}", f"{whole:.2f}") for name, high, whole in exponents(curve)]
    ranges = (f"{upper[0]:,} to {upper[-1]:,}", f"{curve.xs[0]:,} to {curve.xs[-1]:,}")
    return (
        Table((curve.axis, *(one.name for one in columns), "τ"), rows, curve.title),
        Table(("exponent of", *ranges), exponents_by_range, text=[f"![{curve.title}]({image})"]),
    )


def _cell(value: Spread) -> str:
    return f"{value.median:.3g} ({value.low:.3g}–{value.high:.3g})"
