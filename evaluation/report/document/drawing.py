"""Drawings in pixels: panels in rows of two, axes with round ticks, a legend. A template writes them
as SVG with colours for light and dark backgrounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from display.blocks import Axis, Drawing, Look, Mark, Panel
from evaluation.report.document.cells import Write
from evaluation.statistics import Interval

PANEL, HEIGHT, LEFT, RIGHT, TOP, FOOT = 440, 300, 58, 14, 34, 46  # pixels
KEY, COLUMNS = 20, 4  # height of a row of the legend, and how many entries stand in one
APART = 26  # pixels between two ticks, at least
GREY = "#7A7F88"


class AxisScale(NamedTuple):
    """What an axis spans, as the parameters of ``scaled_axis``."""

    name: str
    values: Iterable[float]
    write: Write
    share: float = 0.08
    ticks: Sequence[float] = ()


def empty_panel(number: int, x: AxisScale, y: AxisScale, beside: int = 0) -> Panel:
    """The panels stand in rows of two. ``beside``: pixels at the right of the axis x."""
    left, top = PANEL * (number % 2), HEIGHT * (number // 2)
    right, bottom = left + PANEL - RIGHT, top + HEIGHT - FOOT
    return Panel(left, right, _axis(x, left + LEFT, right - beside), _axis(y, bottom, top + TOP))


def _axis(scale: AxisScale, start: float, end: float) -> Axis:
    name, values, write, share, ticks = scale
    return scaled_axis(name, values, share, start, end, write, ticks)


def interval_mark(panel: Panel, look: Look, x: float, value: Interval, text: str) -> Mark:
    """``x``: in pixels."""
    return Mark(look, x, panel.y.at(value.value), text, upright(x, value, panel.y))


def with_legend(
    title: str, panels: tuple[Panel, ...], entries: Sequence[tuple[Look, str]]
) -> Drawing:
    """With its legend, two panels wide."""
    columns = COLUMNS if max((len(text) for _, text in entries), default=0) < 24 else COLUMNS // 2
    width, first = 2 * PANEL / columns, max(panel.y.start for panel in panels) + FOOT + 14
    legend = tuple(
        Mark(look, LEFT + width * (number % columns), first + KEY * (number // columns), text)
        for number, (look, text) in enumerate(entries)
    )
    height = round(first) + KEY * math.ceil(len(legend) / columns)
    return Drawing(title, 2 * PANEL, height, panels, legend)


def upright(x: float, interval: Interval, y: Axis) -> str:
    """Path data of an interval, as far as the axis goes; empty where there is none."""
    low, high = _within(y, interval)
    return "" if math.isnan(low + high) else f"M{x:.1f} {low:.1f}V{high:.1f}"


def across(y: float, interval: Interval, x: Axis) -> str:
    low, high = _within(x, interval)
    return "" if math.isnan(low + high) else f"M{low:.1f} {y:.1f}H{high:.1f}"


def _within(axis: Axis, interval: Interval) -> tuple[float, float]:
    """Both ends in pixels."""
    low, high = (axis.at(min(max(end, axis.low), axis.high)) for end in interval[1:])
    return low, high


def reached(intervals: Iterable[Interval], *levels: float) -> list[float]:
    """What an axis spans: all values and levels, and the ends of intervals as far as the values are
    apart, or half of the largest value."""
    every = list(intervals)
    known = [value for value in (*(each.value for each in every), *levels) if math.isfinite(value)]
    if not known:
        return []
    least, most = min(known), max(known)
    most_beyond = max(most - least, max(abs(least), abs(most)) / 2)
    ends = (
        min(max(end, least - most_beyond), most + most_beyond) for each in every for end in each
    )
    return [*ends, *levels]


def scaled_axis(
    name: str,
    values: Iterable[float],
    share: float,
    start: float,
    end: float,
    write: Write,
    ticks: Sequence[float] = (),
) -> Axis:
    """Of the finite values, with space at both ends, a ``share`` of the range; without ``ticks``
    about five round ones."""
    finite = list(filter(math.isfinite, values))
    least, most = min(finite), max(finite)
    margin_width = share * (most - least) or 0.05 * abs(most) or 0.5
    axis = Axis(name, least - margin_width, most + margin_width, start, end)
    rough = (axis.high - axis.low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    steps = range(math.ceil(axis.low / step), math.floor(axis.high / step) + 1)
    spaced: list[float] = []
    for tick in ticks or [round(step * number, 12) for number in steps]:
        if not spaced or abs(axis.at(tick) - axis.at(spaced[-1])) >= APART:
            spaced.append(tick)
    return axis._replace(ticks=tuple((axis.at(tick), write(tick)) for tick in spaced))
