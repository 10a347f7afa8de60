"""What followed relaxed tokens, as a section: a chart and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from display.blocks import Picture, Section
from display.format import percent
from evaluation.report.document.cells import beside
from evaluation.report.document.chart import SHARES
from evaluation.report.document.lines import LinePoint, ValueAxis, lines_plot
from evaluation.report.document.rows import row_table
from evaluation.report.rows import PROPERTIES, FollowedRow
from evaluation.report.values import Report

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
    return Section("followed", TITLE, (*_picture(report, parts), *tables), LEAD)


def _picture(report: Report, rows: Sequence[FollowedRow]) -> Iterator[Picture]:
    """Draw the share of changed answers by property, or of texts that meet where no answer is
    known."""
    known = any(not math.isnan(row.changed.value) for row in rows)
    title, field = ("Changed answers", "changed") if known else ("Texts that meet", "meets")
    points = [
        LinePoint(
            PROPERTIES[row.by],
            f"{row.name(report.plan)}, T = {row.temperature:g}",
            row.x,
            row.part,
            value,
            beside(value, percent),
        )
        for row in rows
        if not math.isnan((value := getattr(row, field)).value) and not math.isnan(row.x)
    ]
    if points:
        text = f"{title} by properties of the relaxed token; bars are 95 % intervals by prompt."
        yield Picture("chart-followed", title, lines_plot(text, points, axes=ValueAxis(SHARES)))
