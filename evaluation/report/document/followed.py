"""What followed relaxed tokens, as a section: a chart and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from evaluation.format import MISSING, count, percent, signed
from evaluation.report.document.blocks import (
    Block,
    Head,
    Look,
    Mark,
    Panel,
    Picture,
    ReportTable,
    Section,
    TableCell,
)
from evaluation.report.document.cells import beside, short_percent, spread
from evaluation.report.document.chart import COLOURS
from evaluation.report.document.drawing import (
    FOOT,
    HEIGHT,
    LEFT,
    PANEL,
    RIGHT,
    TOP,
    corner,
    scaled_axis,
    upright,
    with_legend,
)
from evaluation.report.values import FollowedRow, Report
from evaluation.statistics import Interval

TITLE = "What follows a relaxed token"
LEAD = (
    "For each token, strict continues from just before it, with the target's token instead, and from just after it, with the same noise. "
    "Changed: the answers of the two texts differ, by score or by what is extracted from them. Meets: both texts have the same end; "
    "after: the tokens until then, median and quartiles. ln p: of the text after the token, per token, minus that of the other. "
    "Shares and means have 95 % intervals by prompt."
)
BY = {
    "r": "r = z₂/z₁",
    "gap": "gap z₁ − z₂",
    "entropy": "entropy of p, nats",
    "position": "position",
    "kind": "kind",
}
DODGE = 3.0  # pixels between the bars of two lanes
HEADS = ("Tokens", "Prompts", "Changed", "Meets", "After", "ln p")


def followed_section(report: Report, *, pictures: bool = True) -> Section | None:
    """None for a study whose relaxed tokens were not followed."""
    if not report.followed:
        return None
    every = [row for row in report.followed if not row.by]
    parts = [row for row in report.followed if row.by]
    tables = _table(report, TITLE, every), _table(report, "By token", parts)
    drawn = (_picture(report, parts),) if pictures else ()
    return Section("followed", TITLE, (*drawn, *tables), LEAD)


def _table(report: Report, label: str, rows: Sequence[FollowedRow]) -> Block:
    of_parts = ("Property", "Values") if any(row.by for row in rows) else ()
    heads = ("Rule", "Drafter", "T", *of_parts, *HEADS)
    return ReportTable(label, tuple(map(Head, heads)), tuple(_cells(report, row) for row in rows))


def _cells(report: Report, row: FollowedRow) -> tuple[TableCell, ...]:
    lane = report.plan.lanes[row.lane]
    name = (lane.name, lane.drafts or MISSING, f"{row.temperature:g}")
    part = (BY[row.by], row.part) if row.by else ()
    return (
        *map(TableCell, (*name, *part, count(row.tokens), count(row.prompts))),
        spread(row.changed, percent),
        spread(row.meets, percent),
        spread(row.meets_after),
        spread(row.logprob, signed),
    )


def _picture(report: Report, rows: Sequence[FollowedRow]) -> Picture:
    """The share of changed answers by property, or of texts that meet where no answer is known."""
    known = any(not math.isnan(row.changed.value) for row in rows)
    title, field = ("Changed answers", "changed") if known else ("Texts that meet", "meets")
    looks = {
        (row.lane, row.temperature): Look(
            COLOURS[1 + row.lane % (len(COLOURS) - 1)],
            hollow=report.plan.temperatures.index(row.temperature) > 0,
        )
        for row in rows
    }
    names = {key: f"{report.plan.lanes[key[0]].name}, T = {key[1]:g}" for key in looks}
    marked = [
        _Marked(row, getattr(row, field), looks[key], names[key], list(looks).index(key))
        for row in rows
        if (key := (row.lane, row.temperature)) and not math.isnan(getattr(row, field).value)
    ]
    panels = tuple(
        _panel(number, by, [each for each in marked if each.row.by == by], title)
        for number, by in enumerate(dict.fromkeys(each.row.by for each in marked))
    )
    text = f"{title} by properties of the relaxed token; bars are 95 % intervals by prompt."
    legend = [(look, names[key]) for key, look in looks.items()]
    return Picture("chart-followed", with_legend(text, panels, legend), text)


class _Marked(NamedTuple):
    """``series``: its number."""

    row: FollowedRow
    value: Interval
    look: Look
    name: str
    series: int


def _panel(number: int, by: str, marked: Sequence[_Marked], title: str) -> Panel:
    left, top = corner(number)
    right, bottom = left + PANEL - RIGHT, top + HEIGHT - FOOT
    ends = [end for each in marked for end in each.value if not math.isnan(end)]
    xs = [each.row.x for each in marked]
    x = scaled_axis(BY[by], xs, 0.08, left + LEFT, right, "{:g}".format)
    if by == "kind":
        x = x._replace(ticks=tuple({x.at(each.row.x): each.row.part for each in marked}.items()))
    y = scaled_axis(title, ends, 0.08, bottom, top + TOP, short_percent)
    series: dict[int, list[Mark]] = {}
    for row, value, look, name, index in marked:
        at = x.at(row.x) + DODGE * index
        text = f"{name}, {BY[by]} {row.part}: {beside(value, percent)}"
        mark = Mark(look, at, y.at(value.value), text, upright(at, value, y))
        series.setdefault(index, []).append(mark)
    drawn = tuple(map(tuple, series.values()))
    return Panel(left, right, x, y, drawn, () if by == "kind" else drawn)
