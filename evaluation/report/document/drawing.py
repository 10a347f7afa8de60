"""The charts of a report as drawings in pixels, with colours that stand on light and on dark ground; a template writes them as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluation.report.document.blocks import Drawing, Label, Look, Mark, Path
from evaluation.report.document.cells import Write
from evaluation.report.document.chart import Chart, Point, Series
from evaluation.report.values import Interval

PANEL, HEIGHT, LEFT, RIGHT, TOP, FOOT = 440, 300, 58, 14, 30, 46  # pixels
KEY, COLUMNS = 20, 4  # height of a row of the legend, and how many entries stand in one
GREY, GRID = "#7A7F88", "#7A7F8833"
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


@dataclass(slots=True)
class Canvas:
    """A drawing while it is put together."""

    paths: list[Path] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dashed: bool = False
    ) -> None:
        """Nothing where an end is unknown."""
        if not any(map(math.isnan, (x1, y1, x2, y2))):
            opacity = 1 if width == 2 or colour in (GREY, GRID) else 0.5
            self.paths.append(Path(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", colour, width, opacity, dashed))

    def frame(self, left: float, right: float, title: str, name: str, x: Scale, y: Scale, write: Write) -> None:
        """Axes of a panel, a grid with the values of y, and the names of both."""
        bottom = HEIGHT - FOOT
        self.labels.append(Label(left + 8, 14, title, "start", True))
        self.labels.append(Label((x.start + x.end) / 2, HEIGHT - 8, name))
        for tick in ticks(y.low, y.high):
            self.line(left + LEFT, y.at(tick), right, y.at(tick), GRID)
            self.labels.append(Label(left + LEFT - 6, y.at(tick) + 4, write(tick), "end"))
        self.line(left + LEFT, TOP, left + LEFT, bottom, GREY)
        self.line(left + LEFT, bottom, right, bottom, GREY)

    def x_ticks(self, places: Iterable[tuple[float, str]]) -> None:
        self.labels += [Label(x, HEIGHT - FOOT + 16, text) for x, text in places]

    def finished(self, title: str, keys: Sequence[Key]) -> Drawing:
        """With its legend."""
        columns = COLUMNS if max((len(key.text) for key in keys), default=0) < 24 else COLUMNS // 2
        for number, key in enumerate(keys):
            x, y = LEFT + 2 * PANEL / columns * (number % columns), HEIGHT + 14 + KEY * (number // columns)
            self.marks.append(Mark(key.look, x, y))
            self.labels.append(Label(x + 12, y + 4, key.text, "start"))
        height = HEIGHT + 14 + KEY * math.ceil(len(keys) / columns)
        return Drawing(title, 2 * PANEL, height, tuple(self.paths), tuple(self.marks), tuple(self.labels))


def parameter_drawing(chart: Chart) -> Drawing | None:
    """Two panels over the varied parameter, strict at the right: speed-up, and recovery with the margin. None where nothing varies."""
    if not chart.varied:
        return None
    canvas = Canvas()
    _panel(canvas, chart, 0, chart.speed, lambda point: point.speedup, times)
    level = _panel(canvas, chart, PANEL, "Recovery", lambda point: point.recovery, percent, (chart.margin,)).at(
        chart.margin
    )
    canvas.line(PANEL + LEFT, level, 2 * PANEL - RIGHT, level, GREY, dashed=True)
    canvas.labels.append(Label(2 * PANEL - RIGHT, level - 4, f"margin {percent(chart.margin)}", "end"))
    title = f"{chart.speed} and recovery over {chart.varied[0].parameter}. {chart.title}"
    return canvas.finished(
        title, [Key(_look(number, series), series.name) for number, series in enumerate(chart.varied)]
    )


def _panel(
    canvas: Canvas, chart: Chart, left: int, title: str, read: Callable[[Point], Interval], write: Write, more: Sequence[float] = ()
) -> Scale:  # fmt: skip
    """The series over the parameter; the scale of y, which has room for ``more``."""
    varied, right = chart.varied, left + PANEL - RIGHT
    xs = sorted({point.x for series in varied for point in series.points})
    every = [point for series in varied for point in (*series.points, *([series.strict] if series.strict else []))]
    x = Scale(*room(xs, 0.12), left + LEFT, right - STRICT)
    y = Scale(*room([*ends(map(read, every)), *more], 0.08), HEIGHT - FOOT, TOP + 4)
    beyond = right - STRICT / 2
    canvas.frame(left, right, title, varied[0].parameter, x, y, write)
    canvas.x_ticks([*((x.at(value), f"{value:g}") for value in xs), (beyond, "strict")])
    for number, series in enumerate(varied):
        look, shift = _look(number, series), DODGE * (number - (len(varied) - 1) / 2)
        places = [(x.at(point.x) + shift, y.at(read(point).value)) for point in series.points]
        canvas.paths.append(Path("M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in places), look.colour, opacity=0.6))
        titled = [(x.at(point.x) + shift, point, f"{point.label}, {series.name}") for point in series.points]
        titled += [(beyond + shift, series.strict, f"strict, {series.name}")] if series.strict else []
        for at, point, text in titled:
            interval = read(point)
            canvas.line(at, y.at(interval.low), at, y.at(interval.high), look.colour, 2)
            canvas.marks.append(Mark(look, at, y.at(interval.value), text))
    return y


def tradeoff_drawing(chart: Chart) -> Drawing:
    """Speed-up against recovery, one mark a lane, with both intervals."""
    points = [point for series in chart.series for point in series.points]
    x = Scale(*room([*ends(point.recovery for point in points), chart.margin], 0.05), LEFT, 2 * PANEL - RIGHT)
    y = Scale(*room(ends(point.speedup for point in points), 0.08), HEIGHT - FOOT, TOP)
    canvas, level = Canvas(), x.at(chart.margin)
    canvas.frame(0, 2 * PANEL - RIGHT, chart.speed, "Recovery", x, y, times)
    canvas.x_ticks((x.at(value), percent(value)) for value in ticks(x.low, x.high))
    canvas.line(level, TOP, level, HEIGHT - FOOT, GREY, dashed=True)
    canvas.labels.append(Label(level - 4, TOP + 10, f"margin {percent(chart.margin)}", "end"))
    rules = list(dict.fromkeys(series.rule for series in chart.series))
    for series in chart.series:
        look = _look(rules.index(series.rule), series)
        for point in series.points:
            at, height = x.at(point.recovery.value), y.at(point.speedup.value)
            canvas.line(x.at(point.recovery.low), height, x.at(point.recovery.high), height, look.colour)
            canvas.line(at, y.at(point.speedup.low), at, y.at(point.speedup.high), look.colour)
            canvas.marks.append(Mark(look, at, height, f"{point.label}, {series.name}"))
    return canvas.finished(f"{chart.speed} against recovery. {chart.title}", keys(chart, rules))


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


def ends(intervals: Iterable[Interval]) -> list[float]:
    return [end for interval in intervals for end in interval if not math.isnan(end)]


def times(value: float) -> str:
    return f"{value:.3g}×"


def percent(value: float) -> str:
    return f"{100 * value:.4g} %".replace("-", "−")
