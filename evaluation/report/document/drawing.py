"""The charts of a report as drawings in pixels, with colours that stand on light and on dark ground; a template writes them as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from evaluation.report.document.blocks import Drawing, Look, Mark, Panel
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


class Scale(NamedTuple):
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


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
    x = Scale(*room(xs, 0.12), left + LEFT, right - STRICT)
    y = Scale(*room(ends(map(read, every), margin), 0.08), BOTTOM, TOP + 4)
    beyond = right - STRICT / 2
    marks, lines = [], []
    for number, series in enumerate(varied):
        look, shift = _look(number, series), DODGE * (number - (len(varied) - 1) / 2)
        places = [(x.at(point.x) + shift, read(point), f"{point.label}, {series.name}") for point in series.points]
        lines.append(
            (look.colour, "M" + "L".join(f"{at:.1f} {y.at(interval.value):.1f}" for at, interval, _ in places))
        )
        places += [(beyond + shift, read(series.strict), f"strict, {series.name}")] if series.strict else []
        marks += [
            Mark(look, at, y.at(interval.value), text, _upright(at, interval, y)) for at, interval, text in places
        ]
    return Panel(
        left=left,
        x=(left + LEFT, right),
        title=title,
        name=varied[0].parameter,
        x_ticks=(*((x.at(value), f"{value:g}") for value in xs), (beyond, "strict")),
        y_ticks=tuple((y.at(tick), write(tick)) for tick in ticks(y.low, y.high)),
        margin=("", 0, 0, "") if margin is None else
        (f"M{left + LEFT} {y.at(margin):.1f}H{right}", right, y.at(margin) - 4, f"margin {write(margin)}"),
        lines=tuple(lines),
        marks=tuple(marks),
    )  # fmt: skip


def tradeoff_drawing(chart: Chart) -> Drawing:
    """Speed-up against recovery, one mark a lane, with both intervals."""
    points = [point for series in chart.series for point in series.points]
    x = Scale(*room(ends((point.recovery for point in points), chart.margin), 0.05), LEFT, 2 * PANEL - RIGHT)
    y = Scale(*room(ends(point.speedup for point in points), 0.08), BOTTOM, TOP)
    rules, level = list(dict.fromkeys(series.rule for series in chart.series)), x.at(chart.margin)
    marks = []
    for series in chart.series:
        for point in series.points:
            at, height = x.at(point.recovery.value), y.at(point.speedup.value)
            bars = _upright(at, point.speedup, y) + _across(height, point.recovery, x)
            look = _look(rules.index(series.rule), series)
            marks.append(Mark(look, at, height, f"{point.label}, {series.name}", bars))
    panel = Panel(
        left=0,
        x=(LEFT, 2 * PANEL - RIGHT),
        title=chart.speed,
        name="Recovery",
        x_ticks=tuple((x.at(tick), percent(tick)) for tick in ticks(x.low, x.high)),
        y_ticks=tuple((y.at(tick), times(tick)) for tick in ticks(y.low, y.high)),
        margin=(f"M{level:.1f} {TOP}V{BOTTOM}", level - 4, TOP + 10, f"margin {percent(chart.margin)}"),
        lines=(),
        marks=tuple(marks),
    )
    return _drawing(f"{chart.speed} against recovery. {chart.title}", (panel,), keys(chart, rules))


def _drawing(title: str, panels: tuple[Panel, ...], entries: Sequence[Key]) -> Drawing:
    """With its legend, two panels wide."""
    columns = COLUMNS if max((len(key.text) for key in entries), default=0) < 24 else COLUMNS // 2
    legend = tuple(
        Mark(
            key.look, LEFT + 2 * PANEL / columns * (number % columns), HEIGHT + 14 + KEY * (number // columns), key.text
        )
        for number, key in enumerate(entries)
    )
    height = HEIGHT + 14 + KEY * math.ceil(len(legend) / columns)
    return Drawing(title, 2 * PANEL, height, (TOP, BOTTOM), panels, legend)


def _upright(x: float, interval: Interval, y: Scale) -> str:
    return "" if any(map(math.isnan, interval)) else f"M{x:.1f} {y.at(interval.low):.1f}V{y.at(interval.high):.1f}"


def _across(y: float, interval: Interval, x: Scale) -> str:
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


def room(values: Sequence[float], share: float) -> tuple[float, float]:
    """The range of the values with some room at both ends."""
    low, high = min(values), max(values)
    more = share * (high - low) or 0.05 * abs(high) or 0.5
    return low - more, high + more


def ticks(low: float, high: float) -> list[float]:
    """About five round values within the range."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    return [round(step * number, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def ends(intervals: Iterable[Interval], margin: float | None = None) -> list[float]:
    """All values and ends of intervals that there are, and the margin."""
    found = [end for interval in intervals for end in interval if not math.isnan(end)]
    return found if margin is None else [*found, margin]


def times(value: float) -> str:
    return f"{value:.3g}×"


def percent(value: float) -> str:
    return f"{100 * value:.4g} %".replace("-", "−")
