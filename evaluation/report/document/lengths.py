"""τ and speed over the length of the prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from display.blocks import Picture, Section
from display.format import count
from evaluation.report.document.cells import beside
from evaluation.report.document.lines import ALONE, LinePoint, ValueAxis, lines_plot
from evaluation.report.document.rows import row_table
from evaluation.report.rows import LengthRow
from evaluation.report.values import Report

LEAD = (
    "Each prompt stands after stories that fill it to so many tokens; the same prompts at every "
    "length, over the tasks that all lanes completed. Tokens/s: all new tokens over all seconds, "
    "which include reading the prompt. Intervals by prompt. matrix.csv has these numbers by "
    "category too."
)
DRAWN = {"tau": "τ", "tokens_per_s": "Tokens/s"}


def length_section(report: Report) -> Section | None:
    """Return the section; None for a study whose prompts have the length that they have."""
    rows = [row for row in report.lengths if not row.group]
    if not rows or not any(suite.tokens for suite in report.plan.suites):
        return None
    table = row_table(report.plan, "τ and speed by prompt length", rows)
    return Section("lengths", "Length of the prompt", (*_pictures(report, rows), table), LEAD)


def _pictures(report: Report, rows: Sequence[LengthRow]) -> Iterator[Picture]:
    plan = report.plan
    for order, temperature in enumerate(plan.temperatures, start=1):
        points = [
            LinePoint(
                caption,
                plan.title(plan.lanes[row.lane]) if plan.lanes[row.lane].drafts else ALONE,
                math.log2(row.length),
                f"{count(row.length)} tokens",
                value,
                beside(value),
            )
            for name, caption in DRAWN.items()
            for row in rows
            if row.temperature == temperature and not plan.lanes[row.lane].is_control
            if math.isfinite((value := getattr(row, name)).value)
        ]
        if points:
            title = f"τ and tokens a second over the length of the prompt, T = {temperature:g}"
            axes = {caption: ValueAxis({}) for caption in DRAWN.values()}
            plot = lines_plot(title, points, "Length of the prompt", axes)
            yield Picture(f"chart-length-{order}", "τ and speed by prompt length", plot)
