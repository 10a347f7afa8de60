"""The values of a report's charts: metrics of every lane, in series.
``evaluation.report.document.panels`` draws them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from display.format import bounded, percent, plural, ratio
from display.names import drafts_label
from display.palette import LANES
from display.panels import Level, Look
from display.plot import FigurePart
from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.plan import Plan
from evaluation.report.document.cells import beside, margin
from evaluation.report.measured import BLANK, METRICS, Measured
from evaluation.report.metrics import Write
from evaluation.report.values import ALL, Report
from evaluation.statistics import Interval
from mars_core.types import ShiftKind, numbers

# Of rules: strict, then the others in the order of the plan; no outcome's is among them.
COLOURS = (*LANES, "#5F8A2F", "#3F6FB5", "#9A5B7E", "#6B5B45")
# by drafter; hollow from the second temperature on
SHAPES = ("circle", "square", "diamond", "triangle-up")
PLACEBO = "cross"  # in the colour of the rule that it imitates
SHARES: FigurePart = {"tickformat": "~%"}
TIMES: FigurePart = {"ticksuffix": "×"}


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

    def known(self, measured: Measured) -> bool:
        return math.isfinite(self.read(measured).value)

    def text(self, point: Point) -> str:
        """Write its value at a point with its interval, marked where it is an upper bound."""
        value = beside(self.of(point), self.write)
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

    rule: str  # as people say it
    is_strict: bool
    drafts: str
    temperature: str
    parameter: str
    look: Look
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        return f"{self.rule}, {self.drafts}, {self.temperature}"


class Chart(NamedTuple):
    """``group``: what was measured. ``quantities``: those that are known of any point.
    ``placebos``: series that relax as much at random."""

    group: str
    title: str
    quantities: tuple[ChartQuantity, ...]
    series: tuple[Series, ...]
    placebos: tuple[Series, ...] = ()

    def first(self, names: Iterable[str]) -> ChartQuantity | None:
        """Return the first of these quantities that is known."""
        known = {each.name: each for each in self.quantities}
        return next((known[name] for name in names if name in known), None)

    @property
    def varied(self) -> tuple[Series, ...]:
        """Those that make a line: of the parameter that most series vary."""
        lines = [series for series in self.series if series.parameter and len(series.points) > 1]
        most = Counter(series.parameter for series in lines).most_common(1)
        return tuple(series for series in lines if series.parameter == most[0][0])


def charts(report: Report) -> tuple[Chart, ...]:
    """Return the chart of every suite, and of all together, of which a lane has run."""
    drawn = (_chart(report, group) for group in report.suite_groups)
    return tuple(chart for chart in drawn if chart.series)


def _quantities(plan: Plan) -> Iterable[ChartQuantity]:
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
    by_series: dict[tuple[str, str, str, float], list[Measured]] = {}
    for row in rows:
        key = _series(plan, plan.lanes[row.lane])
        by_series.setdefault((*key, row.temperature), []).append(row)
    rules = list(dict.fromkeys((BASELINE, *(plan.lanes[row.lane].rule.name for row in rows))))
    series, placebos = list[Series](), list[Series]()
    for (_, drafts, parameter, temperature), group_rows in by_series.items():
        first = plan.lanes[group_rows[0].lane]
        points = [_point(plan, row, parameter) for row in group_rows]
        shape = SHAPES[report.drafts.index(first.drafts) % len(SHAPES)]
        (placebos if first.imitates else series).append(
            Series(
                rule=first.rule_title,
                is_strict=first.rule.name == BASELINE,
                drafts=drafts_label(drafts),
                temperature=f"T = {temperature:g}",
                parameter=parameter,
                look=Look(
                    COLOURS[rules.index((first.imitates or first.rule).name) % len(COLOURS)],
                    PLACEBO if first.imitates else shape,
                    plan.temperatures.index(temperature) > 0,
                ),
                points=tuple(sorted(points, key=lambda point: point.x)),
            )
        )
    most = max(((row.prompts, row.seeds) for row in rows), default=(0, 0))
    amount = f"{plural(most[0], 'prompt')} × {plural(most[1], 'seed')}"
    known = [each for each in _quantities(plan) if any(map(each.known, rows))]
    title = f"{'all suites' if group == ALL else group}: {amount}; bars are 95 % intervals"
    if any(each.level for each in known):
        title += f", recovery is of strict’s score, the margin is {margin(plan.margin)}"
    return Chart(group, title, tuple(known), tuple(series), tuple(placebos))


def _series(plan: Plan, lane: Lane) -> tuple[str, str, str]:
    """Rule, drafts and varied parameter of the lanes that make a series with this one: the one
    parameter of the rule that has several values, else K where that has."""
    name = lane.rule_name
    same = [each for each in plan.lanes if each.rule_name == name]
    varied = [p for p in lane.parameters if len({each.parameters.get(p) for each in same}) > 1]
    if varied or lane.drafter.tree:
        return name, lane.drafts, varied[0] if len(varied) == 1 else ""
    alike = {
        each.drafter.k for each in same if replace(each.drafter, k=lane.drafter.k) == lane.drafter
    }
    if len(alike) < 2:
        return name, lane.drafts, ""
    return name, lane.family, "K"


def _point(plan: Plan, row: Measured, parameter: str) -> Point:
    lane = plan.lanes[row.lane]
    values = {"K": float(lane.drafter.k), **numbers(lane.parameters)}
    label = f"{lane.title}, K = {lane.drafter.k}" if parameter == "K" else lane.title
    return Point(values.get(parameter, math.nan), label, row, lane.tv_kind(row.temperature))
