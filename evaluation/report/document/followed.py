"""What followed relaxed tokens, as a section: a chart and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    title = "Changed answers" if known else "Texts that meet"
    series = list(dict.fromkeys((row.lane, row.temperature) for row in rows))
    looks = {
        (lane, temperature): Look(
            COLOURS[1 + lane % (len(COLOURS) - 1)],
            hollow=report.plan.temperatures.index(temperature) > 0,
        )
        for lane, temperature in series
    }
    panels = tuple(
        _panel(report, number, by, [row for row in rows if row.by == by], looks, title)
        for number, by in enumerate(dict.fromkeys(row.by for row in rows))
    )
    legend = [
        (look, f"{report.plan.lanes[lane].name}, T = {temperature:g}")
        for (lane, temperature), look in looks.items()
    ]
    text = f"{title} by properties of the relaxed token; bars are 95 % intervals by prompt."
    return Picture("chart-followed", with_legend(text, panels, legend), text)


def _panel(
    report: Report,
    number: int,
    by: str,
    rows: Sequence[FollowedRow],
    looks: dict[tuple[int, float], Look],
    title: str,
) -> Panel:
    left, top = corner(number)
    right, bottom = left + PANEL - RIGHT, top + HEIGHT - FOOT
    value = _changed if title.startswith("Changed") else _meets
    ends = [end for row in rows for end in value(row) if not math.isnan(end)]
    x = scaled_axis(BY[by], [row.x for row in rows], 0.08, left + LEFT, right, "{:g}".format)
    if by == "kind":
        x = x._replace(ticks=tuple({x.at(row.x): row.part for row in rows}.items()))
    y = scaled_axis(title, ends or [0, 1], 0.08, bottom, top + TOP, short_percent)
    drawn = []
    for index, (key, look) in enumerate(looks.items()):
        shift = 3.0 * (index - (len(looks) - 1) / 2)
        marks = []
        for row in rows:
            if (row.lane, row.temperature) == key and not math.isnan(value(row).value):
                at = x.at(row.x) + shift
                text = f"{report.plan.lanes[row.lane].name}, {BY[by]} {row.part}: "
                text += beside(value(row), percent)
                bar = upright(at, value(row), y)
                marks.append(Mark(look, at, y.at(value(row).value), text, bar))
        drawn.append(tuple(marks))
    return Panel(left, right, x, y, tuple(drawn), () if by == "kind" else tuple(drawn))


def _changed(row: FollowedRow) -> Interval:
    return row.changed


def _meets(row: FollowedRow) -> Interval:
    return row.meets
