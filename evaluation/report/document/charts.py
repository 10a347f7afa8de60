"""The charts of a report, one pair for every group: what is kept over the speed, and every quantity
over the varied parameter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from display.format import bounded, percent, plural, ratio
from display.names import drafts_label, parameter_title
from display.palette import NEUTRAL
from display.panels import Level, Look, Mark, Panel, panels_plot, reached, spanning
from display.plot import Data, FigurePart, Plot
from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.plan import Plan
from evaluation.report.document.cells import beside, margin
from evaluation.report.document.lines import (
    COLOURS,
    SHARES,
    TIMES,
    LinePoint,
    ValueAxis,
    lines_plot,
)
from evaluation.report.measured import BLANK, METRICS, Measured
from evaluation.report.metrics import Write
from evaluation.report.values import ALL, Report
from evaluation.statistics import Interval, interval_columns
from mars_core.types import numbers

# by drafter; hollow from the second temperature on
SHAPES = ("circle", "square", "diamond", "triangle-up")
PLACEBO = "cross"  # in the colour of the rule that it imitates
STRICT = 0.22  # of the axis, between the last value and strict
LEAST_RUNS = 5  # of a lane on the Pareto front; of fewer the noise of their times decides
GAINS, KEPT = ("speedup", "tau_ratio"), ("recovery", "same")  # the first that is known
KEPT_PX = 380


class Point(NamedTuple):
    """A lane in the charts of a group. ``series``: rule, drafter and temperature in words;
    ``parameter``: what varies in the series, empty where nothing does; ``x``: its value, or nan."""

    lane: Lane
    measured: Measured
    series: tuple[str, str, str]
    look: Look
    parameter: str
    x: float

    @property
    def label(self) -> str:
        return f"{self.lane.title}{f', K = {self.x:g}' if self.parameter == 'K' else ''}"


class ChartQuantity(NamedTuple):
    """What a panel shows of a lane. ``ticks``: their look on its axis; ``shift``: a TV; ``level``: what
    is enough."""

    name: str
    title: str
    write: Write
    ticks: FigurePart
    read: Callable[[Measured], Interval]
    shift: bool = False
    level: Level | None = None

    def of(self, point: Point) -> Interval:
        return self.read(point.measured)

    def known(self, point: Point) -> bool:
        return math.isfinite(self.of(point).value)

    def text(self, point: Point) -> str:
        """Write its value at a point with its interval, marked where it is an upper bound."""
        value = beside(self.of(point), self.write)
        kind = point.lane.tv_kind(point.measured.temperature)
        return f"{self.title} {bounded(value, kind) if self.shift else value}"


class Chart(NamedTuple):
    """``group``: what was measured; ``points``: of every series in the order of its parameter,
    placebos last; ``quantities``: by name, those that are known of any point."""

    group: str
    title: str
    points: Sequence[Point]
    quantities: dict[str, ChartQuantity]

    def first(self, names: Sequence[str]) -> ChartQuantity | None:
        """Return the first of these quantities that is known."""
        return next((self.quantities[name] for name in names if name in self.quantities), None)

    @property
    def rules(self) -> list[Point]:
        """The points without placebos."""
        return [point for point in self.points if not point.lane.imitates]

    @property
    def varied(self) -> list[Point]:
        """Those that make a line: of the parameter that most series vary."""
        sizes = Counter((each.series, each.parameter) for each in self.rules if each.parameter)
        lines = [series for series, points in sizes.items() if points > 1]
        most = Counter(parameter for _, parameter in lines).most_common(1)
        lines = [each for each in lines if each[1] == most[0][0]]
        return [each for each in self.rules if (each.series, each.parameter) in lines]


def charts(report: Report) -> tuple[Chart, ...]:
    """Return the chart of every suite, and of all together, of which a lane has run."""
    drawn = (_chart(report, group) for group in report.suite_groups)
    return tuple(chart for chart in drawn if chart.points)


def _chart(report: Report, group: str) -> Chart:
    plan = report.plan
    rows = [
        row
        for row in report.measured
        if row.group == group
        and plan.lanes[row.lane].drafts
        and not plan.lanes[row.lane].best
        and math.isfinite(row.tau.value)
    ]
    rules = list(dict.fromkeys((BASELINE, *(plan.lanes[row.lane].rule.name for row in rows))))
    points = [_point(report, row, rules) for row in rows]
    order = list(dict.fromkeys(point.series for point in points))
    points.sort(key=lambda each: (bool(each.lane.imitates), order.index(each.series), each.x))
    most = max(((row.prompts, row.seeds) for row in rows), default=(0, 0))
    amount = f"{plural(most[0], 'prompt')} × {plural(most[1], 'seed')}"
    known = {each.name: each for each in _quantities(plan) if any(map(each.known, points))}
    title = f"{'all suites' if group == ALL else group}: {amount}; bars are 95 % intervals"
    if "recovery" in known:
        title += f", recovery is of strict’s score, the margin is {margin(plan.margin)}"
    return Chart(group, title, points, known)


def _quantities(plan: Plan) -> Iterator[ChartQuantity]:
    def recovery(row: Measured) -> Interval:
        return row.main_score.recovery if row.main_score else BLANK

    speed = f"Speed-up over {BASELINE if plan.none is None else 'the target alone'}"
    yield ChartQuantity("speedup", speed, ratio, TIMES, lambda row: row.speedup_over(plan))
    level = plan.margin, f"margin {margin(plan.margin)}"
    yield ChartQuantity("recovery", "Recovery", percent, SHARES, recovery, level=level)
    for name, metric in METRICS.items():
        if metric.panel:
            ticks = SHARES if metric.write is percent else {}
            read = attrgetter(name)
            yield ChartQuantity(name, metric.panel, metric.write, ticks, read, metric.shift)


def _point(report: Report, row: Measured, rules: Sequence[str]) -> Point:
    """``rules``: by name, in the order of their colours."""
    plan, lane = report.plan, report.plan.lanes[row.lane]
    parameter, drafts = _varied(plan, lane)
    shape = SHAPES[report.drafts.index(lane.drafts) % len(SHAPES)]
    look = Look(
        COLOURS[rules.index((lane.imitates or lane.rule).name) % len(COLOURS)],
        PLACEBO if lane.imitates else shape,
        plan.temperatures.index(row.temperature) > 0,
    )
    series = lane.rule_title, drafts_label(drafts), f"T = {row.temperature:g}"
    values = {"K": float(lane.drafter.k), **numbers(lane.parameters)}
    return Point(lane, row, series, look, parameter, values.get(parameter, math.nan))


def _varied(plan: Plan, lane: Lane) -> tuple[str, str]:
    """Return what varies in the series of a lane, and its drafts: the one parameter of the rule
    that has several values, else K where that has."""
    same = [each for each in plan.lanes if each.rule_name == lane.rule_name]
    varied = [p for p in lane.parameters if len({each.parameters.get(p) for each in same}) > 1]
    if varied or lane.drafter.tree:
        return varied[0] if len(varied) == 1 else "", lane.drafts
    depths = {
        each.drafter.k for each in same if replace(each.drafter, k=lane.drafter.k) == lane.drafter
    }
    return ("K", lane.family) if len(depths) > 1 else ("", lane.drafts)


def plots(chart: Chart) -> dict[str, Plot]:
    """Draw ``kept`` where something is known to be kept, such as recovery: over the speed, every
    lane and its placebo with its name beside it; ``parameter`` where one varies, strict at the
    right. The τ ratio, where no speed is known, repeats exactly."""
    drawn = dict[str, Plot]()
    gain, kept = chart.first(GAINS), chart.first(KEPT)
    if gain and kept:
        drawn["kept"] = _kept(chart, gain, kept)
    if varied := chart.varied:
        over = parameter_title(varied[0].parameter)
        points = list(_over_parameter(chart, varied))
        axes = {each.title: ValueAxis(each.ticks, each.level) for each in chart.quantities.values()}
        looks = {", ".join(each.series): each.look for each in chart.points}
        captions = ", ".join(dict.fromkeys(point.panel for point in points))
        title = f"{captions} over {over}. {chart.title}"
        drawn["parameter"] = lines_plot(title, points, over, axes, looks)
    return drawn


def _over_parameter(chart: Chart, varied: Sequence[Point]) -> Iterator[LinePoint]:
    """Yield the values of the series that vary, and of strict where it does not."""
    xs = sorted({point.x for point in varied})
    right, lines = xs[-1] + STRICT * (xs[-1] - xs[0] or 1), {point.series for point in varied}
    places = [(point, point.x, f"{point.x:g}") for point in varied]
    places += [
        (point, right, "strict")
        for point in chart.rules
        if point.lane.rule.name == BASELINE and point.series not in lines
    ]
    for quantity in chart.quantities.values():
        for point, x, place in places:
            if quantity.known(point):
                value, text = quantity.of(point), quantity.text(point)
                yield LinePoint(quantity.title, ", ".join(point.series), x, place, value, text)


def _kept(chart: Chart, gain: ChartQuantity, kept: ChartQuantity) -> Plot:
    """Draw all lanes with their names; of a lane with fewer runs than others with their number."""
    points = [each for each in chart.points if kept.known(each) and gain.known(each)]
    most = max((point.measured.runs for point in points), default=0)
    marks, rows, options = list[Mark](), [], list[tuple[float, float]]()
    for point in points:
        x, y, runs, series = (
            gain.of(point),
            kept.of(point),
            point.measured.runs,
            ", ".join(point.series),
        )
        name = point.label if runs == most else f"{point.label}, {plural(runs, 'run')}"
        text = f"{point.label}, {series}: {kept.text(point)}, {gain.text(point)}"
        marks.append(Mark(point.look, x, y, text, name))
        rows.append((point.label, series, *x, *y))
        enough = runs >= LEAST_RUNS and not point.lane.imitates
        options.append((x.value, y.value) if enough else (math.nan, math.nan))
    panel = Panel(
        kept.title,
        spanning(reached(each.x for each in marks), gain.title, share=0.05, **gain.ticks),
        spanning(reached((each.y for each in marks), kept.level), **kept.ticks),
        [[marks[index]._replace(look=Look(NEUTRAL)) for index in front(options)]],
        marks,
        kept.level,
    )
    heads = "lane", "series", *interval_columns(gain.name), *interval_columns(kept.name)
    title = f"{kept.title} over {gain.title}. {chart.title}"
    return panels_plot(title, [panel], _shapes(chart.rules), Data(heads, rows), KEPT_PX)


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points that no other beats, by rising x: one beats another that is
    smaller on one axis and not larger on the other. Points with a nan are left out."""
    known = sorted(
        (point, index) for index, point in enumerate(points) if not any(map(math.isnan, point))
    )
    return [
        index
        for (x, y), index in known
        if not any(x <= right and y <= up and (right, up) != (x, y) for (right, up), _ in known)
    ]


def _shapes(points: Sequence[Point]) -> list[tuple[Look, str]]:
    """Return the shapes of drafters, then what is filled, each only where there are several."""
    shapes = {each.series[1]: Look(NEUTRAL, each.look.shape) for each in points}
    fills = {each.series[2]: Look(NEUTRAL, hollow=each.look.hollow) for each in points}
    return [
        (look, name) for each in (shapes, fills) if len(each) > 1 for name, look in each.items()
    ]
