"""The charts of a report as SVG: no script, no fonts, colours that stand on light and on dark ground. Knows no study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from evaluation.format import displayable
from evaluation.report.form.chart import Chart, Point, Series
from evaluation.report.form.svg_parts import (
    FOOT,
    GREY,
    GRID,
    HEIGHT,
    LEFT,
    PANEL,
    RIGHT,
    TOP,
    Key,
    Look,
    Scale,
    document,
    label,
    mark,
    room,
    ticks,
)
from evaluation.report.values import Interval

COLOURS = ("#D55E00", "#3D8FD1", "#009E73", "#B3872B", "#8C6BB1", "#C4678F", "#5F8A2F", "#6C7A89")
SHAPES = ("circle", "square", "diamond", "triangle")  # by drafter; hollow from the second temperature on
DODGE = 6.0  # pixels between the bars of series that have the same x
STRICT = 64  # width of the place for strict at the right of a panel


def parameter_svg(chart: Chart) -> str:
    """Two panels over the varied parameter, strict at the right: speed-up, and recovery with the margin. Empty where nothing varies."""
    varied = chart.varied
    if not varied:
        return ""
    name = varied[0].parameter
    parts = [
        *_panel(varied, 0, chart.speed, lambda point: point.speedup, (), _times),
        *_panel(varied, PANEL, "Recovery", lambda point: point.recovery, (chart.margin,), _percent),
    ]
    entries = [Key(_look(number, series), series.name) for number, series in enumerate(varied)]
    return document(f"{chart.speed} and recovery over {name}. {chart.title}", parts, entries)


def _panel(
    varied: Sequence[Series], left: int, title: str, read: Callable[[Point], Interval], lines: Sequence[float],
    write: Callable[[float], str],
) -> list[str]:  # fmt: skip
    every = [point for series in varied for point in (*series.points, *([series.strict] if series.strict else []))]
    xs = sorted({point.x for series in varied for point in series.points})
    x = Scale(*room(xs, 0.12), left + LEFT, left + PANEL - RIGHT - STRICT)
    y = Scale(*room([*_ends(map(read, every)), *lines], 0.08), HEIGHT - FOOT, TOP + 4)
    parts = _frame(left, PANEL, title, varied[0].parameter, x, y, xs, write)
    beyond = left + PANEL - RIGHT - STRICT / 2
    parts.append(label(beyond, HEIGHT - FOOT + 16, "strict"))
    for value in lines:
        parts += [
            _level(left, y.at(value)),
            label(left + PANEL - RIGHT, y.at(value) - 4, f"margin {write(value)}", "end"),
        ]
    for number, series in enumerate(varied):
        shift = DODGE * (number - (len(varied) - 1) / 2)
        parts += _curve(_look(number, series), series, x, y, read, shift)
        if series.strict:
            parts += _upright(_look(number, series), beyond + shift, y, read(series.strict), f"strict, {series.name}")
    return parts


def _look(number: int, series: Series) -> Look:
    return Look(COLOURS[number % len(COLOURS)], SHAPES[series.drafter % len(SHAPES)], series.temperature > 0)


def _curve(
    look: Look, series: Series, x: Scale, y: Scale, read: Callable[[Point], Interval], shift: float
) -> list[str]:
    places = [(x.at(point.x) + shift, point) for point in series.points]
    path = " ".join(f"{place:.1f},{y.at(read(point).value):.1f}" for place, point in places)
    parts = [f'<polyline points="{path}" fill="none" stroke="{look.colour}" stroke-opacity="0.6"/>']
    for place, point in places:
        parts += _upright(look, place, y, read(point), f"{point.label}, {series.name}")
    return parts


def _upright(look: Look, x: float, y: Scale, interval: Interval, title: str) -> list[str]:
    """A mark with its interval."""
    bar = f'<path d="M{x:.1f} {y.at(interval.low):.1f}V{y.at(interval.high):.1f}" stroke="{look.colour}" stroke-width="2"/>'
    return [*([bar] if _known(interval) else []), mark(look, x, y.at(interval.value), title)]


def tradeoff_svg(chart: Chart) -> str:
    """Speed-up against recovery, one mark a lane, with both intervals."""
    points = [point for series in chart.series for point in series.points]
    x = Scale(*room([*_ends(point.recovery for point in points), chart.margin], 0.05), LEFT, 2 * PANEL - RIGHT)
    y = Scale(*room(_ends(point.speedup for point in points), 0.08), HEIGHT - FOOT, TOP)
    parts = _frame(0, 2 * PANEL, chart.speed, "Recovery", x, y, ticks(x.low, x.high), _times, _percent)
    at = x.at(chart.margin)
    parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - FOOT}" stroke="{GREY}" stroke-dasharray="5 4"/>')
    parts.append(label(at - 4, TOP + 10, f"margin {_percent(chart.margin)}", "end"))
    rules = list(dict.fromkeys(series.rule for series in chart.series))
    for series in chart.series:
        look = _look(rules.index(series.rule), series)
        for point in series.points:
            parts += _cross(look, point, x, y, f"{point.label}, {series.name}")
    return document(f"{chart.speed} against recovery. {chart.title}", parts, keys(chart, rules))


def _cross(look: Look, point: Point, x: Scale, y: Scale, title: str) -> list[str]:
    place, height = x.at(point.recovery.value), y.at(point.speedup.value)
    across = (
        f"M{x.at(point.recovery.low):.1f} {height:.1f}H{x.at(point.recovery.high):.1f}"
        if _known(point.recovery)
        else ""
    )
    up = f"M{place:.1f} {y.at(point.speedup.low):.1f}V{y.at(point.speedup.high):.1f}" if _known(point.speedup) else ""
    return [
        f'<path d="{across}{up}" stroke="{look.colour}" stroke-opacity="0.5" fill="none"/>',
        mark(look, place, height, title),
    ]


def keys(chart: Chart, rules: Sequence[str]) -> list[Key]:
    """Colours, then shapes, then what is filled; each only where there are several."""
    drafters = {series.drafter: series.name.split(", ")[1] for series in chart.series}
    temperatures = {series.temperature: series.name.rsplit(", ", 1)[1] for series in chart.series}
    plain = Look(GREY, "circle", False)
    found = [Key(Look(COLOURS[number % len(COLOURS)], "circle", False), rule) for number, rule in enumerate(rules)]
    if len(drafters) > 1:
        found += [Key(replace(plain, shape=SHAPES[number % len(SHAPES)]), name) for number, name in drafters.items()]
    if len(temperatures) > 1:
        found += [Key(replace(plain, hollow=number > 0), name) for number, name in temperatures.items()]
    return found


def _frame(
    left: int, width: int, title: str, across: str, x: Scale, y: Scale, xs: Iterable[float], write: Callable[[float], str],
    write_x: Callable[[float], str] = lambda value: f"{value:g}",
) -> list[str]:  # fmt: skip
    bottom, end = HEIGHT - FOOT, left + width - RIGHT
    parts = [
        label(left + 8, 14, title, "start", bold=True),
        label((x.start + x.end) / 2, HEIGHT - 8, displayable(across)),
    ]
    for tick in ticks(y.low, y.high):
        parts.append(f'<path d="M{left + LEFT} {y.at(tick):.1f}H{end}" stroke="{GRID}"/>')
        parts.append(label(left + LEFT - 6, y.at(tick) + 4, write(tick), "end"))
    parts += [label(x.at(value), bottom + 16, write_x(value)) for value in xs]
    return [*parts, f'<path d="M{left + LEFT} {TOP}V{bottom}H{end}" stroke="{GREY}" fill="none"/>']


def _level(left: int, y: float) -> str:
    return f'<path d="M{left + LEFT} {y:.1f}H{left + PANEL - RIGHT}" stroke="{GREY}" stroke-dasharray="5 4"/>'


def _known(interval: Interval) -> bool:
    return not any(map(math.isnan, interval))


def _ends(intervals: Iterable[Interval]) -> list[float]:
    return [end for interval in intervals for end in interval if not math.isnan(end)]


def _times(value: float) -> str:
    return f"{value:.3g}×"


def _percent(value: float) -> str:
    return f"{100 * value:.4g} %".replace("-", "−")
