"""What followed relaxed tokens, as a section: a chart and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from display.blocks import Picture, Section
from display.format import percent
from display.panels import Look, Panel, lines_panel, panels_plot, spanning, ticked
from display.plot import Data
from evaluation.plan.plan import Plan
from evaluation.report.document.cells import beside
from evaluation.report.document.chart import COLOURS, SHARES
from evaluation.report.document.rows import row_table
from evaluation.report.rows import PROPERTIES, FollowedRow
from evaluation.report.values import Report
from evaluation.statistics import interval_columns

TITLE = "What follows a relaxed token"
LEAD = (
    "For each token, strict continues from just before it, with the target's token instead, and "
    "from just after it, with the same noise. Changed: the answers of the two texts differ, by "
    "score or by what is extracted from them. Meets: both texts have the same end; after: the "
    "tokens until then, median and quartiles. ln p: of the text after the token, per token, minus "
    "that of the other. Shares and means have 95 % intervals by prompt."
)


def followed_section(report: Report) -> Section | None:
    """Return the section; None for a study whose relaxed tokens were not followed."""
    if not report.followed:
        return None
    every = [row for row in report.followed if not row.by]
    parts = [row for row in report.followed if row.by]
    tables = [row_table(report.plan, TITLE, every, ("by", "part"))]
    tables += [row_table(report.plan, "By token", parts)] if parts else []
    return Section("followed", TITLE, (_picture(report, parts), *tables), LEAD)


def _picture(report: Report, rows: Sequence[FollowedRow]) -> Picture:
    """Draw the share of changed answers by property, or of texts that meet where no answer is
    known."""
    known = any(not math.isnan(row.changed.value) for row in rows)
    title, field = ("Changed answers", "changed") if known else ("Texts that meet", "meets")
    plan = report.plan
    looks = {
        (row.lane, row.temperature): Look(
            COLOURS[1 + row.lane % (len(COLOURS) - 1)],
            hollow=plan.temperatures.index(row.temperature) > 0,
        )
        for row in rows
    }
    marked = [row for row in rows if not math.isnan(getattr(row, field).value)]
    panels = [
        _panel(plan, [row for row in marked if row.by == by], title, field, looks)
        for by in dict.fromkeys(row.by for row in marked)
    ]
    heads = ("rule", "temperature", "property", "values", "x", *interval_columns(field))
    numbers = [
        (
            *(row.name(plan), row.temperature, row.by, row.part, row.x),
            *getattr(row, field),
        )
        for row in marked
    ]
    text = f"{title} by properties of the relaxed token; bars are 95 % intervals by prompt."
    legend = [(look, _name(plan, *key)) for key, look in looks.items()]
    return Picture("chart-followed", title, panels_plot(text, panels, legend, Data(heads, numbers)))


def _name(plan: Plan, lane: int, temperature: float) -> str:
    return f"{plan.lanes[lane].title}, T = {temperature:g}"


def _panel(
    plan: Plan,
    rows: Sequence[FollowedRow],
    title: str,
    field: str,
    looks: Mapping[tuple[int, float], Look],
) -> Panel:
    """Draw the panel of one property."""
    by, name = rows[0].by, PROPERTIES[rows[0].by]
    points = [
        (
            key := (row.lane, row.temperature),
            row.x,
            value := getattr(row, field),
            f"{_name(plan, *key)}, {name} {row.part}: {beside(value, percent)}",
        )
        for row in rows
    ]
    if by != "kind":
        return lines_panel(title, points, looks, spanning((row.x for row in rows), name), **SHARES)
    kinds = ticked({row.x: row.part for row in rows}, name)
    panel = lines_panel(title, points, looks, kinds, **SHARES)
    return panel._replace(lines=[[mark] for line in panel.lines for mark in line])
