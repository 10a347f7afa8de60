"""τ and speed over the length of the prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from display.blocks import Picture, Section
from display.format import count
from display.palette import NEUTRAL
from display.panels import Look, Panel, lines_panel, panels_plot, ticked
from display.plot import Data
from evaluation.report.document.cells import beside
from evaluation.report.document.chart import COLOURS
from evaluation.report.document.rows import row_table
from evaluation.report.rows import LengthRow
from evaluation.report.values import Report
from evaluation.statistics import interval_columns

LEAD = (
    "Each prompt stands after stories that fill it to so many tokens; the same prompts at every "
    "length, over the tasks that all lanes completed. Tokens/s: all new tokens over all seconds, "
    "which include reading the prompt. Intervals by prompt. matrix.csv has these numbers by "
    "category too."
)
DRAWN = {"tau": "τ", "tokens_per_s": "Tokens/s"}
HEADS = (
    "temperature",
    "tokens",
    "rule",
    "drafter",
    *interval_columns("tau"),
    *interval_columns("tokens_per_s"),
)


def length_section(report: Report) -> Section | None:
    """Return the section; None for a study whose prompts have the length that they have."""
    rows = [row for row in report.lengths if not row.group]
    if not rows or not any(suite.tokens for suite in report.plan.suites):
        return None
    table = row_table(report.plan, "τ and speed by prompt length", rows)
    return Section("lengths", "Length of the prompt", (*_pictures(report, rows), table), LEAD)


def _pictures(report: Report, rows: Sequence[LengthRow]) -> Iterator[Picture]:
    lanes = [n for n, lane in enumerate(report.plan.lanes) if not lane.is_control]
    looks = {
        lane: Look(COLOURS[at % len(COLOURS)] if report.plan.lanes[lane].drafts else NEUTRAL)
        for at, lane in enumerate(lanes)
    }
    for order, temperature in enumerate(report.plan.temperatures, start=1):
        here = [row for row in rows if row.temperature == temperature and row.lane in looks]
        panels = [
            panel
            for name, title in DRAWN.items()
            for panel in _panel(report, here, name, title, looks)
        ]
        keys = [(look, report.plan.title(report.plan.lanes[lane])) for lane, look in looks.items()]
        data = [
            (
                *(temperature, row.length, report.plan.lanes[row.lane].name),
                *(report.plan.lanes[row.lane].drafts, *row.tau, *row.tokens_per_s),
            )
            for row in here
        ]
        if panels:
            title = f"τ and tokens a second over the length of the prompt, T = {temperature:g}"
            plot = panels_plot(title, panels, keys, Data(HEADS, data))
            yield Picture(f"chart-length-{order}", "τ and speed by prompt length", plot)


def _panel(
    report: Report,
    rows: Sequence[LengthRow],
    name: str,
    title: str,
    looks: Mapping[int, Look],
) -> Iterator[Panel]:
    """Yield the panel of a number, if it is known at all."""
    xs = {math.log2(row.length): count(row.length) for row in rows}
    points = [
        (
            row.lane,
            math.log2(row.length),
            value,
            f"{report.plan.title(report.plan.lanes[row.lane])}, {count(row.length)} tokens: "
            f"{beside(value)}",
        )
        for row in rows
        if math.isfinite((value := getattr(row, name)).value)
    ]
    if points:
        yield lines_panel(title, points, looks, ticked(xs, "Tokens of the prompt"))
