"""What the charts of a report show, as values: speed-up and recovery over the varied parameter, one against the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.format import plural
from evaluation.report.document.cells import margin
from evaluation.report.document.choose import drafts_of, main_score, whole_groups
from evaluation.report.values import ALL, Interval, Measured, Report
from evaluation.study.plan import Lane


@dataclass(frozen=True, slots=True)
class Point:
    """One lane. ``x``: the value of the varied parameter, nan in a series without one."""

    lane: int
    x: float
    label: str
    speedup: Interval
    recovery: Interval


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one rule, drafter and temperature. ``parameter``: what varies, empty where nothing does."""

    name: str
    rule: str
    parameter: str
    drafter: int  # number of the drafter among those of the study
    temperature: int  # and of the temperature
    points: tuple[Point, ...]
    strict: Point | None = None  # with the same drafts; None for strict itself


@dataclass(frozen=True, slots=True)
class Chart:
    """``group``: what was measured. ``margin``: the recovery that is enough. ``over_none``: else the speed-up is over strict."""

    group: str
    margin: float
    over_none: bool
    amount: str  # prompts × seeds
    series: tuple[Series, ...]

    @property
    def varied(self) -> tuple[Series, ...]:
        """Those that make a line: of the parameter that most series vary."""
        lines = [series for series in self.series if series.parameter and len(series.points) > 1]
        most = Counter(series.parameter for series in lines).most_common(1)
        return tuple(series for series in lines if series.parameter == most[0][0])

    @property
    def speed(self) -> str:
        return f"Speed-up over {'none' if self.over_none else 'strict'}"

    @property
    def title(self) -> str:
        group = "all suites" if self.group == ALL else self.group
        return f"{group}: {self.amount}; bars are 95 % intervals, recovery is of strict’s score, the margin is {margin(self.margin)}"


def chart_groups(report: Report) -> tuple[str, ...]:
    """Whole groups of which a recovery was measured: these have a chart."""
    return tuple(group for group in whole_groups(report) if chart(report, group) is not None)


def chart(report: Report, group: str) -> Chart | None:
    """None where no lane has both a speed-up and a recovery."""
    rows = [row for row in report.measured if row.group == group and report.plan.lanes[row.lane].drafts]
    by_series: dict[tuple[str, str, float], list[Measured]] = {}
    for row in rows:
        lane = report.plan.lanes[row.lane]
        by_series.setdefault((lane.rule.name, lane.drafts, row.temperature), []).append(row)
    series = tuple(one for found in by_series.values() if (one := _series(report, found)).points)
    if not series:
        return None
    most = max(rows, key=lambda row: row.prompts)
    amount = f"{plural(most.prompts, 'prompt')} × {plural(most.seeds, 'seed')}"
    return Chart(group, report.plan.margin, report.plan.none is not None, amount, series)


def _series(report: Report, rows: Sequence[Measured]) -> Series:
    """``rows``: of one rule, drafter and temperature."""
    plan, first = report.plan, rows[0]
    lane, baseline = plan.lanes[first.lane], plan.baseline(first.lane)
    parameter = _varied([plan.lanes[row.lane] for row in rows])
    points = [point for row in rows if (point := _point(report, row, parameter))]
    place = (first.group, first.temperature, baseline)
    strict = [row for row in report.measured if (row.group, row.temperature, row.lane) == place]
    return Series(
        name=f"{lane.rule.name}, {lane.drafts}, T = {first.temperature:g}",
        rule=lane.rule.name,
        parameter=parameter,
        drafter=drafts_of(report).index(lane.drafts),
        temperature=plan.temperatures.index(first.temperature),
        points=tuple(sorted(points, key=lambda point: (point.x, point.lane))),
        strict=_point(report, strict[0], "") if strict else None,
    )


def _varied(lanes: Sequence[Lane]) -> str:
    """The one parameter that differs between lanes of one rule; empty where none does or several do."""
    parameters = [lane.rule.parameters for lane in lanes]
    names = [name for name in parameters[0] if len({each.get(name) for each in parameters}) > 1]
    return names[0] if len(names) == 1 else ""


def _point(report: Report, row: Measured, parameter: str) -> Point | None:
    lane, score = report.plan.lanes[row.lane], main_score(row)
    speedup = row.speedup if report.plan.none is not None else row.speedup_strict
    if score is None or math.isnan(score.recovery.value) or math.isnan(speedup.value):
        return None
    return Point(
        row.lane, lane.rule.parameters[parameter] if parameter else math.nan, lane.name, speedup, score.recovery
    )
