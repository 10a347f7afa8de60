"""The charts of a report: speed-up and other metrics over the varied parameter, and speed-up against
what it costs; as values, and as drawings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from evaluation.format import bounded, percent, plural, ratio
from evaluation.report.document.blocks import Drawing, Look, Mark, Panel
from evaluation.report.document.cells import Write, beside, margin, short_percent, times
from evaluation.report.document.drawing import (
    FOOT,
    GREY,
    HEIGHT,
    LEFT,
    PANEL,
    RIGHT,
    TOP,
    across,
    corner,
    scaled_axis,
    upright,
    with_legend,
)
from evaluation.report.values import ALL, BLANK, METRICS, Interval, Measured, Report
from evaluation.study.plan import BASELINE, Lane, Plan
from mars_core.types import ShiftKind

# Of rules: strict, then the others in the order of the plan. The first four are those of the page's
# lanes; no outcome's is among them.
COLOURS = ("#7B7F8C", "#8C6BB1", "#2F93A3", "#B3872B", "#5F8A2F", "#3F6FB5", "#9A5B7E", "#6B5B45")
# by drafter; hollow from the second temperature on
SHAPES = ("circle", "square", "diamond", "triangle")
DODGE = 6.0  # pixels between the bars of series that have the same x
STRICT = 64  # width of the area for strict at the right of a panel
LEAST_RUNS = 5  # of a lane on the Pareto front; of fewer the noise of their times decides
HEADS = ("group", "rule", "series", "parameter", "value", "tv_kind")


class ChartQuantity(NamedTuple):
    """What a panel shows of a lane. ``tick``: format on its axis; ``cost``: 1 where more is worse
    beside more speed, −1 where less is, 0 for what is no cost. ``shift``: a TV."""

    name: str
    title: str
    write: Write
    tick: Write
    read: Callable[[Measured], Interval]
    cost: int = 0
    shift: bool = False

    def text(self, point: Point) -> str:
        """Its value at a point with its interval, marked where it is an upper bound."""
        value = beside(self.read(point.measured), self.write)
        return f"{self.title} {bounded(value, point.tv_kind) if self.shift else value}"


class Point(NamedTuple):
    """One lane. ``x``: the value of the varied parameter, nan in a series without one."""

    x: float
    label: str
    measured: Measured
    tv_kind: ShiftKind


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
    strict: Point | None  # with the same drafts; None where strict is the series or varies too

    @property
    def name(self) -> str:
        return f"{self.rule}, {self.drafts}, {self.temperature}"

    @property
    def every(self) -> tuple[Point, ...]:
        """With strict."""
        return (*self.points, self.strict) if self.strict else self.points

    def mark(
        self, point: Point, x: float, y: float, quantities: Sequence[ChartQuantity], bars: str = ""
    ) -> Mark:
        """Its text has these values with their intervals."""
        values = (each.text(point) for each in quantities)
        look = Look(COLOURS[0] if point is self.strict else self.colour, self.shape, self.hollow)
        return Mark(look, x, y, f"{point.label}, {self.name}: {', '.join(values)}", bars)


class Chart(NamedTuple):
    """``group``: what was measured. ``margin``: the recovery that is enough. ``quantities``: those
    that are known of any point, speed-up first."""

    group: str
    margin: float
    amount: str  # prompts × seeds
    quantities: tuple[ChartQuantity, ...]
    series: tuple[Series, ...]

    @property
    def varied(self) -> tuple[Series, ...]:
        """Those that make a line: of the parameter that most series vary."""
        lines = [series for series in self.series if series.parameter and len(series.points) > 1]
        most = Counter(series.parameter for series in lines).most_common(1)
        return tuple(series for series in lines if series.parameter == most[0][0])

    @property
    def costs(self) -> tuple[ChartQuantity, ...]:
        return tuple(each for each in self.quantities if each.cost)

    @property
    def title(self) -> str:
        group = "all suites" if self.group == ALL else self.group
        scored = f", recovery is of strict’s score, the margin is {margin(self.margin)}"
        recovery = any(each.name == "recovery" for each in self.quantities)
        return f"{group}: {self.amount}; bars are 95 % intervals{scored if recovery else ''}"

    @property
    def heads(self) -> tuple[str, ...]:
        columns = (f"{each.name}{end}" for each in self.quantities for end in ("", "_low", "_high"))
        return (*HEADS, *columns)

    @property
    def rows(self) -> list[tuple[str | float, ...]]:
        """Every point under ``heads``; strict where it is drawn as a point of its own."""
        varied = self.varied
        return [
            (
                self.group,
                point.label,
                series.name,
                series.parameter,
                point.x,
                point.tv_kind,
                *(end for each in self.quantities for end in each.read(point.measured)),
            )
            for series in self.series
            for point in (series.every if series in varied else series.points)
        ]


def charts(report: Report) -> tuple[Chart, ...]:
    """Of every suite, and of all together, of which a lane has a speed-up."""
    drawn = (_chart(report, group) for group in report.suite_groups)
    return tuple(chart for chart in drawn if chart.series)


def _quantities(plan: Plan) -> Iterable[ChartQuantity]:
    def recovery(row: Measured) -> Interval:
        return row.main_score.recovery if row.main_score else BLANK

    speed = f"Speed-up over {BASELINE if plan.none is None else 'none'}"
    yield ChartQuantity("speedup", speed, ratio, times, lambda row: row.speedup_over(plan))
    yield ChartQuantity("recovery", "Recovery", percent, short_percent, recovery, cost=-1)
    for name, metric in METRICS.items():
        if metric.panel:
            tick = short_percent if metric.write is percent else "{:g}".format
            cost = -metric.better if metric.likeness else 0
            read = attrgetter(name)
            yield ChartQuantity(name, metric.panel, metric.write, tick, read, cost, metric.shift)


def _chart(report: Report, group: str) -> Chart:
    plan = report.plan
    speed, *others = _quantities(plan)
    rows = [
        row
        for row in report.measured
        if row.group == group
        and plan.lanes[row.lane].drafts
        and not math.isnan(speed.read(row).value)
    ]
    by_series: dict[tuple[str, str, str, float], list[Measured]] = {}
    for row in rows:
        key = _series(plan, plan.lanes[row.lane])
        by_series.setdefault((*key, row.temperature), []).append(row)
    at = {(row.temperature, row.lane): row for row in rows}
    rules, series = list(dict.fromkeys((BASELINE, *(rule for rule, *_ in by_series)))), []
    for (rule, drafts, parameter, temperature), group_rows in by_series.items():
        first = group_rows[0]
        baselines = {plan.baseline(row.lane) for row in group_rows}
        baseline = baselines.pop() if len(baselines) == 1 else None
        strict = None if baseline is None else at.get((temperature, baseline))
        points = [_point(plan, row, parameter) for row in group_rows]
        series.append(
            Series(
                rule=rule,
                drafts=drafts,
                temperature=f"T = {temperature:g}",
                parameter=parameter,
                colour=COLOURS[rules.index(rule) % len(COLOURS)],
                shape=SHAPES[report.drafts.index(plan.lanes[first.lane].drafts) % len(SHAPES)],
                hollow=plan.temperatures.index(temperature) > 0,
                points=tuple(sorted(points, key=lambda point: point.x)),
                strict=_point(plan, strict, "") if strict else None,
            )
        )
    most = max(((row.prompts, row.seeds) for row in rows), default=(0, 0))
    amount = f"{plural(most[0], 'prompt')} × {plural(most[1], 'seed')}"
    known = [each for each in others if any(math.isfinite(each.read(row).value) for row in rows)]
    return Chart(group, plan.margin, amount, (speed, *known), tuple(series))


def _series(plan: Plan, lane: Lane) -> tuple[str, str, str]:
    """Rule, drafts and varied parameter of the lanes that make a series with this one: the one
    parameter of the rule that has several values, else K where that has."""
    same = [each for each in plan.lanes if each.rule.name == lane.rule.name]
    varied = _several([each.rule.parameters for each in same])
    if varied or lane.drafter.tree:
        return lane.rule.name, lane.drafts, varied[0] if len(varied) == 1 else ""
    alike = {
        each.drafter.k for each in same if replace(each.drafter, k=lane.drafter.k) == lane.drafter
    }
    if len(alike) < 2:
        return lane.rule.name, lane.drafts, ""
    return lane.rule.name, lane.drafts.replace(f" K={lane.drafter.k}", ""), "K"


def _several(parameters: Sequence[Mapping[str, float]]) -> list[str]:
    """The parameters that differ between lanes of one rule."""
    return [name for name in parameters[0] if len({each.get(name) for each in parameters}) > 1]


def _point(plan: Plan, row: Measured, parameter: str) -> Point:
    lane = plan.lanes[row.lane]
    values = {"": math.nan, "K": float(lane.drafter.k), **lane.rule.parameters}
    label = f"{lane.name}, K={lane.drafter.k}" if parameter == "K" else lane.name
    return Point(values[parameter], label, row, lane.tv_kind(row.temperature))


def front(options: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Indices of the Pareto-optimal options by rising cost; an option is (cost, gain): less cost
    and more gain are better.

    One option beats another that costs no less and gains no more, unless both are equal. Options
    with a nan are ignored.
    """
    known = [index for index, option in enumerate(options) if not any(map(math.isnan, option))]
    best: list[int] = []
    for index in sorted(known, key=lambda index: (options[index][0], -options[index][1])):
        if (
            not best
            or options[index][1] > options[best[-1]][1]
            or options[index] == options[best[-1]]
        ):
            best.append(index)
    return tuple(best)


def drawings(chart: Chart) -> dict[str, Drawing]:
    """``parameter`` where one varies; where a cost is known ``tradeoff`` and ``tau``, speed-up and τ
    ratio against it: the latter repeats exactly, also where the times are noise."""
    gains = {"tradeoff": "speedup", "tau": "tau_ratio"} if chart.costs else {}
    known = {each.name: each for each in chart.quantities}
    varied = {"parameter": _parameter_drawing(chart)} if chart.varied else {}
    return varied | {
        kind: _tradeoff_drawing(chart, known[name]) for kind, name in gains.items() if name in known
    }


def _parameter_drawing(chart: Chart) -> Drawing:
    """Every quantity over the varied parameter, strict at the right."""
    points = [point for series in chart.varied for point in series.every]
    known = [
        each
        for each in chart.quantities
        if any(math.isfinite(each.read(point.measured).value) for point in points)
    ]
    panels = tuple(_over_parameter(chart, number, each) for number, each in enumerate(known))
    names = ", ".join(each.title for each in known)
    title = f"{names} over {chart.varied[0].parameter}. {chart.title}"
    return with_legend(title, panels, _keys(chart.varied))


def _over_parameter(chart: Chart, number: int, quantity: ChartQuantity) -> Panel:
    varied, (left, top) = chart.varied, corner(number)
    right, bottom = left + PANEL - RIGHT, top + HEIGHT - FOOT
    every = [quantity.read(point.measured) for series in varied for point in series.every]
    level = chart.margin if quantity.name == "recovery" else None
    xs = sorted({point.x for series in varied for point in series.points})
    x = scaled_axis(varied[0].parameter, xs, 0.12, left + LEFT, right - STRICT, "{:g}".format, xs)
    y = scaled_axis(quantity.title, _ends(every, level), 0.08, bottom, top + TOP, quantity.tick)
    strict = right - STRICT / 2
    drawn = []

    def marks(series: Series, points: Iterable[tuple[Point, float]]) -> tuple[Mark, ...]:
        known = ((point, at, quantity.read(point.measured)) for point, at in points)
        return tuple(
            series.mark(point, at, y.at(value.value), [quantity], upright(at, value, y))
            for point, at, value in known
            if math.isfinite(value.value)
        )

    for index, series in enumerate(varied):
        shift = DODGE * (index - (len(varied) - 1) / 2)
        drawn.append(marks(series, [(point, x.at(point.x) + shift) for point in series.points]))
        drawn += [marks(series, [(series.strict, strict + shift)])] if series.strict else []
    if any(series.strict for series in varied):
        x = x._replace(ticks=(*x.ticks, (strict, "strict")))
    line = ("", 0.0, "") if level is None else ("y", y.at(level), f"margin {quantity.tick(level)}")
    return Panel(left, right, x, y, tuple(drawn), tuple(drawn), level=line)


def _tradeoff_drawing(chart: Chart, gain: ChartQuantity) -> Drawing:
    """The gain against every cost, one mark a lane, with both intervals."""
    panels = tuple(_tradeoff(chart, number, gain, each) for number, each in enumerate(chart.costs))
    names = " and ".join(each.title for each in chart.costs)
    title = f"{gain.title} against {names}. {chart.title}"
    return with_legend(title, panels, _keys(chart.series))


def _tradeoff(chart: Chart, number: int, gain: ChartQuantity, cost: ChartQuantity) -> Panel:
    left, top = corner(number)
    right, bottom = left + PANEL - RIGHT, top + HEIGHT - FOOT
    points = [
        (series, point, cost.read(point.measured), gain.read(point.measured))
        for series in chart.series
        for point in series.points
        if math.isfinite(cost.read(point.measured).value)
    ]
    level = chart.margin if cost.name == "recovery" else None
    costs, gains = [each[2] for each in points], [each[3] for each in points]
    x = scaled_axis(cost.title, _ends(costs, level), 0.05, left + LEFT, right, cost.tick)
    y = scaled_axis(gain.title, _ends(gains), 0.08, bottom, top + TOP, gain.tick)
    marks = []
    for series, point, price, worth in points:
        at, height = x.at(price.value), y.at(worth.value)
        bars = upright(at, worth, y) + across(height, price, x)
        marks.append(series.mark(point, at, height, [gain, cost], bars))
    enough = [
        (cost.cost * price.value if point.measured.runs >= LEAST_RUNS else math.nan, worth.value)
        for _, point, price, worth in points
    ]
    best = tuple(marks[at]._replace(look=Look(GREY)) for at in front(enough))
    line = ("", 0.0, "") if level is None else ("x", x.at(level), f"margin {cost.tick(level)}")
    return Panel(left, right, x, y, (tuple(marks),), (best,), level=line)


def _keys(drawn: Sequence[Series]) -> list[tuple[Look, str]]:
    """Colours of rules, then shapes, then what is filled; the latter two only where there are
    several."""
    colours = [
        (Look(colour), rule)
        for rule, colour in {series.rule: series.colour for series in drawn}.items()
    ]
    shapes = {series.drafts: Look(GREY, series.shape) for series in drawn}
    fills = {series.temperature: Look(GREY, hollow=series.hollow) for series in drawn}
    return colours + [
        (look, name) for each in (shapes, fills) if len(each) > 1 for name, look in each.items()
    ]


def _ends(intervals: Iterable[Interval], margin: float | None = None) -> list[float]:
    """All values and ends of intervals that there are, and the margin."""
    ends = [end for interval in intervals for end in interval if not math.isnan(end)]
    return ends if margin is None else [*ends, margin]
