"""The charts of a report as drawings in pixels, with colours that stand on light and on dark ground; a template writes them as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from evaluation.report.document.blocks import Axis, Drawing, Look, Mark, Panel
from evaluation.report.document.cells import Write
from evaluation.report.document.chart import Chart, Point, Series
from evaluation.report.values import Interval

PANEL, HEIGHT, LEFT, RIGHT, TOP, FOOT = 440, 300, 58, 14, 30, 46  # pixels
KEY, COLUMNS = 20, 4  # height of a row of the legend, and how many entries stand in one
BOTTOM = HEIGHT - FOOT
GREY = "#7A7F88"
COLOURS = ("#D55E00", "#3D8FD1", "#009E73", "#B3872B", "#8C6BB1", "#C4678F", "#5F8A2F", "#6C7A89")
SHAPES = ("circle", "square", "diamond", "triangle")  # by drafter; hollow from the second temperature on
DODGE = 6.0  # pixels between the bars of series that have the same x
STRICT = 64  # width of the place for strict at the right of a panel


class Key(NamedTuple):
    """An entry of the legend."""

    look: Look
    text: str


def parameter_drawing(chart: Chart) -> Drawing | None:
    """Two panels over the varied parameter, strict at the right: speed-up, and recovery with the margin. None where nothing varies."""
    if not chart.varied:
        return None
    panels = (
        _over_parameter(chart, 0, chart.speed, lambda point: point.speedup, times),
        _over_parameter(chart, PANEL, "Recovery", lambda point: point.recovery, percent, chart.margin),
    )
    legend = [Key(_look(number, series), series.name) for number, series in enumerate(chart.varied)]
    return _drawing(f"{chart.speed} and recovery over {chart.varied[0].parameter}. {chart.title}", panels, legend)


def _over_parameter(
    chart: Chart, left: int, title: str, read: Callable[[Point], Interval], write: Write, margin: float | None = None
) -> Panel:
    varied, right = chart.varied, left + PANEL - RIGHT
    xs = sorted({point.x for series in varied for point in series.points})
    every = [point for series in varied for point in (*series.points, *([series.strict] if series.strict else []))]
    x = _axis(varied[0].parameter, xs, 0.12, left + LEFT, right - STRICT, "{:g}".format, xs)
    y = _axis(title, _ends(map(read, every), margin), 0.08, BOTTOM, TOP + 4, write)
    strict = right - STRICT / 2
    marks, lines = [], []
    for number, series in enumerate(varied):
        look, shift = _look(number, series), DODGE * (number - (len(varied) - 1) / 2)
        places = [(x.at(point.x) + shift, read(point), f"{point.label}, {series.name}") for point in series.points]
        curve = "L".join(f"{at:.1f} {y.at(interval.value):.1f}" for at, interval, _ in places)
        lines.append((look.colour, f"M{curve}"))
        places += [(strict + shift, read(series.strict), f"strict, {series.name}")] if series.strict else []
        marks += [Mark(look, at, y.at(one.value), text, _upright(at, one, y)) for at, one, text in places]
    panel = Panel(left, right, x._replace(ticks=(*x.ticks, (strict, "strict"))), y, tuple(marks), tuple(lines))
    if margin is None:
        return panel
    line = f"M{left + LEFT} {y.at(margin):.1f}H{right}"
    return panel._replace(margin=(line, right, y.at(margin) - 4, f"margin {write(margin)}"))


def tradeoff_drawing(chart: Chart) -> Drawing:
    """Speed-up against recovery, one mark a lane, with both intervals."""
    points = [(point, series) for series in chart.series for point in series.points]
    recoveries = _ends((point.recovery for point, _ in points), chart.margin)
    x = _axis("Recovery", recoveries, 0.05, LEFT, 2 * PANEL - RIGHT, percent)
    y = _axis(chart.speed, _ends(point.speedup for point, _ in points), 0.08, BOTTOM, TOP, times)
    rules, level = list(dict.fromkeys(series.rule for series in chart.series)), x.at(chart.margin)
    marks = []
    for point, series in points:
        at, height = x.at(point.recovery.value), y.at(point.speedup.value)
        bars = _upright(at, point.speedup, y) + _across(height, point.recovery, x)
        marks.append(Mark(_look(rules.index(series.rule), series), at, height, f"{point.label}, {series.name}", bars))
    margin = (f"M{level:.1f} {TOP}V{BOTTOM}", level - 4, TOP + 10, f"margin {percent(chart.margin)}")
    panel = Panel(0, 2 * PANEL - RIGHT, x, y, tuple(marks), margin=margin)
    return _drawing(f"{chart.speed} against recovery. {chart.title}", (panel,), keys(chart, rules))


def _drawing(title: str, panels: tuple[Panel, ...], entries: Sequence[Key]) -> Drawing:
    """With its legend, two panels wide."""
    columns = COLUMNS if max((len(key.text) for key in entries), default=0) < 24 else COLUMNS // 2
    width, first = 2 * PANEL / columns, HEIGHT + 14
    places = [(LEFT + width * (number % columns), first + KEY * (number // columns)) for number in range(len(entries))]
    legend = tuple(Mark(key.look, x, y, key.text) for key, (x, y) in zip(entries, places, strict=True))
    height = first + KEY * math.ceil(len(legend) / columns)
    return Drawing(title, 2 * PANEL, height, (TOP, BOTTOM), panels, legend)


def _upright(x: float, interval: Interval, y: Axis) -> str:
    return "" if any(map(math.isnan, interval)) else f"M{x:.1f} {y.at(interval.low):.1f}V{y.at(interval.high):.1f}"


def _across(y: float, interval: Interval, x: Axis) -> str:
    return "" if any(map(math.isnan, interval)) else f"M{x.at(interval.low):.1f} {y:.1f}H{x.at(interval.high):.1f}"


def keys(chart: Chart, rules: Sequence[str]) -> list[Key]:
    """Colours, then shapes, then what is filled; each only where there are several."""
    drafters = {series.drafter: series.name.split(", ")[1] for series in chart.series}
    temperatures = {series.temperature: series.name.rsplit(", ", 1)[1] for series in chart.series}
    found = [Key(Look(COLOURS[number % len(COLOURS)]), rule) for number, rule in enumerate(rules)]
    if len(drafters) > 1:
        found += [Key(Look(GREY, SHAPES[number % len(SHAPES)]), name) for number, name in drafters.items()]
    if len(temperatures) > 1:
        found += [Key(Look(GREY, hollow=number > 0), name) for number, name in temperatures.items()]
    return found


def _look(number: int, series: Series) -> Look:
    return Look(COLOURS[number % len(COLOURS)], SHAPES[series.drafter % len(SHAPES)], series.temperature > 0)


def _axis(
    name: str, values: Sequence[float], share: float, start: float, end: float, write: Write, ticks: Sequence[float] = ()
) -> Axis:  # fmt: skip
    """With room at both ends, a ``share`` of the range; without ``ticks`` about five round ones."""
    least, most = min(values), max(values)
    room = share * (most - least) or 0.05 * abs(most) or 0.5
    axis = Axis(name, least - room, most + room, start, end)
    rough = (axis.high - axis.low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    steps = range(math.ceil(axis.low / step), math.floor(axis.high / step) + 1)
    found = ticks or [round(step * number, 12) for number in steps]
    return axis._replace(ticks=tuple((axis.at(tick), write(tick)) for tick in found))


def _ends(intervals: Iterable[Interval], margin: float | None = None) -> list[float]:
    """All values and ends of intervals that there are, and the margin."""
    found = [end for interval in intervals for end in interval if not math.isnan(end)]
    return found if margin is None else [*found, margin]


def times(value: float) -> str:
    return f"{value:.3g}×"


def percent(value: float) -> str:
    return f"{100 * value:.4g} %".replace("-", "−")
