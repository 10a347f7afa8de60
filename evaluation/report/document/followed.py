"""What followed relaxed tokens, as a section: a chart and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from display.blocks import Block, Head, Picture, ReportTable, Section, TableCell
from display.format import MISSING, count, percent, signed
from display.panels import Look, Mark, Panel, at, dodge, panels_plot, spanning
from display.plot import Data, FigurePart
from evaluation.report.document.cells import beside, spread
from evaluation.report.document.chart import COLOURS, SHARES
from evaluation.report.values import FollowedRow, Report
from evaluation.statistics import Interval, interval_columns

TITLE = "What follows a relaxed token"
LEAD = (
    "For each token, strict continues from just before it, with the target's token instead, and "
    "from just after it, with the same noise. Changed: the answers of the two texts differ, by "
    "score or by what is extracted from them. Meets: both texts have the same end; after: the "
    "tokens until then, median and quartiles. ln p: of the text after the token, per token, minus "
    "that of the other. Shares and means have 95 % intervals by prompt."
)
BY = {
    "r": "r = z₂/z₁",
    "gap": "gap z₁ − z₂",
    "entropy": "entropy of p, nats",
    "position": "position",
    "kind": "kind",
}
LaneSetting = tuple[int, float]  # lane and temperature
HEADS = ("Tokens", "Prompts", "Changed", "Meets", "After", "ln p")


def followed_section(report: Report, *, pictures: bool = True) -> Section | None:
    """Return the section; None for a study whose relaxed tokens were not followed."""
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
    """Draw the share of changed answers by property, or of texts that meet where no answer is
    known."""
    known = any(not math.isnan(row.changed.value) for row in rows)
    title, field = ("Changed answers", "changed") if known else ("Texts that meet", "meets")
    legend = {
        (row.lane, row.temperature): (
            Look(
                COLOURS[1 + row.lane % (len(COLOURS) - 1)],
                hollow=report.plan.temperatures.index(row.temperature) > 0,
            ),
            f"{report.plan.lanes[row.lane].name}, T = {row.temperature:g}",
        )
        for row in rows
    }
    marked = [row for row in rows if not math.isnan(getattr(row, field).value)]
    panels = [
        _panel([row for row in marked if row.by == by], title, attrgetter(field), legend)
        for by in dict.fromkeys(row.by for row in marked)
    ]
    heads = ("rule", "temperature", "property", "values", "x", *interval_columns(field))
    numbers = [
        (
            *(report.plan.lanes[row.lane].name, row.temperature, row.by, row.part, row.x),
            *getattr(row, field),
        )
        for row in marked
    ]
    text = f"{title} by properties of the relaxed token; bars are 95 % intervals by prompt."
    return Picture(
        "chart-followed", title, panels_plot(text, panels, legend.values(), Data(heads, numbers))
    )


def _panel(
    rows: Sequence[FollowedRow],
    title: str,
    read: Callable[[FollowedRow], Interval],
    legend: Mapping[LaneSetting, tuple[Look, str]],
) -> Panel:
    """Draw the panel of one property."""
    by = rows[0].by
    lines: dict[LaneSetting, list[Mark]] = {}
    for row in rows:
        key, value = (row.lane, row.temperature), read(row)
        look, name = legend[key]
        x = row.x + dodge([*legend].index(key), len(legend), [each.x for each in rows])
        text = f"{name}, {BY[by]} {row.part}: {beside(value, percent)}"
        lines.setdefault(key, []).append(Mark(look, at(x), value, text))
    kinds = {row.x: row.part for row in rows if by == "kind"}
    ticks: FigurePart = {"tickvals": [*kinds], "ticktext": [*kinds.values()]} if kinds else {}
    return Panel(
        title,
        spanning((row.x for row in rows), BY[by], **ticks),
        spanning((end for row in rows for end in read(row)), **SHARES),
        [mark for line in lines.values() for mark in line],
        () if kinds else [*lines.values()],
    )
