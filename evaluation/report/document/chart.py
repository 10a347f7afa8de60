"""The charts of a report: speed-up and recovery over the varied parameter, and one against the
other; as values, and as drawings in pixels, which a template writes as SVG with colours for light
and dark backgrounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from evaluation.format import plural, ratio
from evaluation.report.document.blocks import Axis, Drawing, Look, Mark, Panel
from evaluation.report.document.cells import Write, beside, margin, percent, short_percent, times
from evaluation.report.values import ALL, Interval, Measured, Report
from evaluation.study.plan import BASELINE, Plan

PANEL, HEIGHT, LEFT, RIGHT, TOP, FOOT = 440, 300, 58, 14, 30, 46  # pixels
KEY, COLUMNS = 20, 4  # height of a row of the legend, and how many entries stand in one
BOTTOM = HEIGHT - FOOT
GREY = "#7A7F88"
# Of rules: strict, then the others in the order of the plan. The first four are those of the page's
# lanes; no outcome's is among them.
COLOURS = ("#7B7F8C", "#8C6BB1", "#2F93A3", "#B3872B", "#5F8A2F", "#3F6FB5", "#9A5B7E", "#6B5B45")
SHAPES = (
    "circle",
    "square",
    "diamond",
    "triangle",
)  # by drafter; hollow from the second temperature on
DODGE = 6.0  # pixels between the bars of series that have the same x
STRICT = 64  # width of the place for strict at the right of a panel
HEADS = (
    "group",
    "rule",
    "series",
    "parameter",
    "value",
    "speedup",
    "speedup_low",
    "speedup_high",
    "recovery",
    "recovery_low",
    "recovery_high",
)


class Point(NamedTuple):
    """One lane. ``x``: the value of the varied parameter, nan in a series without one."""

    x: float
    label: str
    speedup: Interval
    recovery: Interval


class Series(NamedTuple):
    """Points of one rule, drafter and temperature. ``parameter``: what varies, empty where nothing
    does."""

    rule: str
    drafts: str
    temperature: str
    parameter: str
    colour: str
    shape: str
    hollow: bool
    points: tuple[Point, ...]
    strict: Point | None  # with the same drafts; None for strict itself

    @property
    def name(self) -> str:
        return f"{self.rule}, {self.drafts}, {self.temperature}"

    @property
    def every(self) -> tuple[Point, ...]:
        """With strict."""
        return (*self.points, self.strict) if self.strict else self.points

    def mark(self, point: Point, x: float, y: float, bars: str) -> Mark:
        """Its text has both values with their intervals."""
        values = (
            f"speed-up {beside(point.speedup, ratio)}, recovery {beside(point.recovery, percent)}"
        )
        look = Look(COLOURS[0] if point is self.strict else self.colour, self.shape, self.hollow)
        return Mark(look, x, y, f"{point.label}, {self.name}: {values}", bars)


class Chart(NamedTuple):
    """``group``: what was measured. ``margin``: the recovery that is enough. ``speed``: the name of
    the speed-up."""

    group: str
    margin: float
    speed: str
    amount: str  # prompts × seeds
    series: tuple[Series, ...]

    @property
    def varied(self) -> tuple[Series, ...]:
        """Those that make a line: of the parameter that most series vary."""
        lines = [series for series in self.series if series.parameter and len(series.points) > 1]
        most = Counter(series.parameter for series in lines).most_common(1)
        return tuple(series for series in lines if series.parameter == most[0][0])

    @property
    def title(self) -> str:
        group = "all suites" if self.group == ALL else self.group
        return f"{group}: {self.amount}; bars are 95 % intervals, recovery is of strict’s score, the margin is {margin(self.margin)}"

    @property
    def rows(self) -> list[tuple[str | float, ...]]:
        """Every point under HEADS; strict where it is drawn as a point of its own."""
        varied = self.varied
        return [
            (
                self.group,
                point.label,
                series.name,
                series.parameter,
                point.x,
                *point.speedup,
                *point.recovery,
            )
            for series in self.series
            for point in (series.every if series in varied else series.points)
        ]


def charts(report: Report) -> tuple[Chart, ...]:
    """Of every suite, and of all together, of which a lane has both a speed-up and a recovery."""
    found = (_chart(report, group) for group in report.whole_groups)
    return tuple(chart for chart in found if chart.series)


def _chart(report: Report, group: str) -> Chart:
    plan = report.plan
    rows = [row for row in report.measured if row.group == group and plan.lanes[row.lane].drafts]
    by_series: dict[tuple[str, str, float], list[Measured]] = {}
    for row in rows:
        lane = plan.lanes[row.lane]
        by_series.setdefault((lane.rule.name, lane.drafts, row.temperature), []).append(row)
    strict: dict[tuple[float, int | None], Point | None] = {}
    strict |= {(row.temperature, row.lane): _point(plan, row, "") for row in rows}
    rules, series = list(dict.fromkeys((BASELINE, *(rule for rule, *_ in by_series)))), []
    for (rule, drafts, temperature), found in by_series.items():
        parameter = _varied([plan.lanes[row.lane].rule.parameters for row in found])
        points = [point for row in found if (point := _point(plan, row, parameter))]
        one = Series(
            rule=rule,
            drafts=drafts,
            temperature=f"T = {temperature:g}",
            parameter=parameter,
            colour=COLOURS[rules.index(rule) % len(COLOURS)],
            shape=SHAPES[report.drafts.index(drafts) % len(SHAPES)],
            hollow=plan.temperatures.index(temperature) > 0,
            points=tuple(sorted(points, key=lambda point: point.x)),
            strict=strict.get((temperature, plan.baseline(found[0].lane))),
        )
        series += [one] if points else []
    most = max(((row.prompts, row.seeds) for row in rows), default=(0, 0))
    speed = f"Speed-up over {'strict' if plan.none is None else 'none'}"
    return Chart(
        group,
        plan.margin,
        speed,
        f"{plural(most[0], 'prompt')} × {plural(most[1], 'seed')}",
        tuple(series),
    )


def _varied(parameters: Sequence[Mapping[str, float]]) -> str:
    """The one parameter that differs between lanes of one rule; empty where none does or several
    do."""
    names = [name for name in parameters[0] if len({each.get(name) for each in parameters}) > 1]
    return names[0] if len(names) == 1 else ""


def _point(plan: Plan, row: Measured, parameter: str) -> Point | None:
    lane, score, speedup = plan.lanes[row.lane], row.main_score, row.speedup_over(plan)
    if score is None or math.isnan(score.recovery.value) or math.isnan(speedup.value):
        return None
    return Point(
        lane.rule.parameters[parameter] if parameter else math.nan,
        lane.name,
        speedup,
        score.recovery,
    )


def drawings(chart: Chart) -> dict[str, Drawing]:
    """``tradeoff``, and where a parameter varies ``parameter`` before it."""
    return ({"parameter": _parameter_drawing(chart)} if chart.varied else {}) | {
        "tradeoff": _tradeoff_drawing(chart)
    }


def _parameter_drawing(chart: Chart) -> Drawing:
    """Two panels over the varied parameter, strict at the right: speed-up, and recovery with the
    margin."""
    panels = (
        _over_parameter(chart, 0, chart.speed, lambda point: point.speedup, times),
        _over_parameter(
            chart, PANEL, "Recovery", lambda point: point.recovery, short_percent, chart.margin
        ),
    )
    title = f"{chart.speed} and recovery over {chart.varied[0].parameter}. {chart.title}"
    return with_legend(title, panels, _keys(chart.varied))


def _over_parameter(
    chart: Chart,
    left: int,
    title: str,
    read: Callable[[Point], Interval],
    write: Write,
    margin: float | None = None,
) -> Panel:
    varied, right = chart.varied, left + PANEL - RIGHT
    xs = sorted({point.x for series in varied for point in series.points})
    every = [read(point) for series in varied for point in series.every]
    x = scaled_axis(varied[0].parameter, xs, 0.12, left + LEFT, right - STRICT, "{:g}".format, xs)
    y = scaled_axis(title, _ends(every, margin), 0.08, BOTTOM, TOP + 4, write)
    strict = right - STRICT / 2
    drawn = []

    def mark(series: Series, point: Point, at: float) -> Mark:
        return series.mark(point, at, y.at(read(point).value), upright(at, read(point), y))

    for number, series in enumerate(varied):
        shift = DODGE * (number - (len(varied) - 1) / 2)
        drawn.append(tuple(mark(series, point, x.at(point.x) + shift) for point in series.points))
        drawn += [(mark(series, series.strict, strict + shift),)] if series.strict else []
    level = ("", 0.0, "") if margin is None else ("y", y.at(margin), f"margin {write(margin)}")
    return Panel(
        left, right, x._replace(ticks=(*x.ticks, (strict, "strict"))), y, tuple(drawn), level=level
    )


def _tradeoff_drawing(chart: Chart) -> Drawing:
    """Speed-up against recovery, one mark a lane, with both intervals."""
    points = [(point, series) for series in chart.series for point in series.points]
    recoveries = _ends((point.recovery for point, _ in points), chart.margin)
    x = scaled_axis("Recovery", recoveries, 0.05, LEFT, 2 * PANEL - RIGHT, short_percent)
    y = scaled_axis(
        chart.speed, _ends(point.speedup for point, _ in points), 0.08, BOTTOM, TOP, times
    )
    marks = []
    for point, series in points:
        at, height = x.at(point.recovery.value), y.at(point.speedup.value)
        marks.append(
            series.mark(
                point,
                at,
                height,
                upright(at, point.speedup, y) + _across(height, point.recovery, x),
            )
        )
    level = ("x", x.at(chart.margin), f"margin {short_percent(chart.margin)}")
    panel = Panel(0, 2 * PANEL - RIGHT, x, y, (tuple(marks),), joined=False, level=level)
    return with_legend(
        f"{chart.speed} against recovery. {chart.title}", (panel,), _keys(chart.series)
    )


def _keys(shown: Sequence[Series]) -> list[tuple[Look, str]]:
    """Colours of rules, then shapes, then what is filled; the latter two only where there are
    several."""
    colours = [
        (Look(colour), rule)
        for rule, colour in {series.rule: series.colour for series in shown}.items()
    ]
    shapes = {series.drafts: Look(GREY, series.shape) for series in shown}
    fills = {series.temperature: Look(GREY, hollow=series.hollow) for series in shown}
    return colours + [
        (look, name) for each in (shapes, fills) if len(each) > 1 for name, look in each.items()
    ]


def with_legend(
    title: str, panels: tuple[Panel, ...], entries: Sequence[tuple[Look, str]]
) -> Drawing:
    """With its legend, two panels wide."""
    columns = COLUMNS if max((len(text) for _, text in entries), default=0) < 24 else COLUMNS // 2
    width, first = 2 * PANEL / columns, HEIGHT + 14
    places = [
        (LEFT + width * (number % columns), first + KEY * (number // columns))
        for number in range(len(entries))
    ]
    legend = tuple(
        Mark(look, x, y, text) for (look, text), (x, y) in zip(entries, places, strict=True)
    )
    height = first + KEY * math.ceil(len(legend) / columns)
    return Drawing(title, 2 * PANEL, height, (TOP, BOTTOM), panels, legend)


def upright(x: float, interval: Interval, y: Axis) -> str:
    """Path data of an interval; empty where there is none."""
    return (
        ""
        if any(map(math.isnan, interval))
        else f"M{x:.1f} {y.at(interval.low):.1f}V{y.at(interval.high):.1f}"
    )


def _across(y: float, interval: Interval, x: Axis) -> str:
    return (
        ""
        if any(map(math.isnan, interval))
        else f"M{x.at(interval.low):.1f} {y:.1f}H{x.at(interval.high):.1f}"
    )


def scaled_axis(
    name: str,
    values: Sequence[float],
    share: float,
    start: float,
    end: float,
    write: Write,
    ticks: Sequence[float] = (),
) -> Axis:
    """With space at both ends, a ``share`` of the range; without ``ticks`` about five round
    ones."""
    least, most = min(values), max(values)
    margin_width = share * (most - least) or 0.05 * abs(most) or 0.5
    axis = Axis(name, least - margin_width, most + margin_width, start, end)
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
