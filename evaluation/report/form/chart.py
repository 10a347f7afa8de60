"""What the charts of a report show, as values: speed-up and recovery over the varied parameter, one against the other. Draws nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluation.format import plural
from evaluation.report.form.cells import margin
from evaluation.report.form.choose import main_score, whole_groups
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
        most = max(
            (series.parameter for series in lines),
            key=lambda name: sum(one.parameter == name for one in lines),
            default="",
        )
        return tuple(series for series in lines if series.parameter == most)

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
    over_none = report.plan.none is not None
    rows = [row for row in report.measured if row.group == group and report.plan.lanes[row.lane].drafts]
    by_series: dict[tuple[str, str, float], list[Measured]] = {}
    for row in rows:
        lane = report.plan.lanes[row.lane]
        by_series.setdefault((lane.rule.name, lane.drafts, row.temperature), []).append(row)
    series = tuple(made for key, found in by_series.items() if (made := _series(report, key, found, over_none)).points)
    if not series:
        return None
    most = max(rows, key=lambda row: row.prompts)
    amount = f"{plural(most.prompts, 'prompt')} × {plural(most.seeds, 'seed')}"
    return Chart(group, report.plan.margin, over_none, amount, series)


def _series(report: Report, key: tuple[str, str, float], rows: Sequence[Measured], over_none: bool) -> Series:
    rule, drafts, temperature = key
    lanes = [report.plan.lanes[row.lane] for row in rows]
    parameter = _varied(lanes)
    points = [
        point for row, lane in zip(rows, lanes, strict=True) if (point := _point(row, lane, parameter, over_none))
    ]
    drafters = list(dict.fromkeys(lane.drafts for lane in report.plan.lanes if lane.drafts))
    return Series(
        f"{rule}, {drafts}, T = {temperature:g}", rule, parameter, drafters.index(drafts),
        report.plan.temperatures.index(temperature), tuple(sorted(points, key=lambda point: (point.x, point.lane))),
        _strict(report, rows[0], over_none),
    )  # fmt: skip


def _strict(report: Report, row: Measured, over_none: bool) -> Point | None:
    number = report.plan.baseline(row.lane)
    if number is None:
        return None
    same = (
        one for one in report.measured if (one.group, one.temperature, one.lane) == (row.group, row.temperature, number)
    )
    return next((_point(one, report.plan.lanes[number], "", over_none) for one in same), None)


def _varied(lanes: Sequence[Lane]) -> str:
    """The one parameter that differs between lanes of one rule; empty where none does or several do."""
    parameters: list[Mapping[str, float]] = [lane.rule.parameters for lane in lanes]
    names = [name for name in parameters[0] if len({each.get(name) for each in parameters}) > 1]
    return names[0] if len(names) == 1 else ""


def _point(row: Measured, lane: Lane, parameter: str, over_none: bool) -> Point | None:
    score = main_score(row)
    speedup = row.speedup if over_none else row.speedup_strict
    if score is None or math.isnan(score.recovery.value) or math.isnan(speedup.value):
        return None
    x = lane.rule.parameters[parameter] if parameter else math.nan
    return Point(row.lane, x, lane.name, speedup, score.recovery)
