"""Rules beside strict at a lower temperature, and two rules at the same τ, as sections."""

from __future__ import annotations

from display.blocks import Head, ReportTable, Section, TableCell
from display.format import count, number, percent
from evaluation.report.document.cells import points, spread
from evaluation.report.values import CurveRow, Report, SharpenedRow

SHARPENED = "Lower temperature alone"
SHARPENED_LEAD = (
    "Strict at shares of the temperature, and each rule beside the point of that curve at which the "
    "texts are as likely under the target as the rule's (log-likelihood of a token, at temperature "
    "1). What the rule keeps beyond that is not explained by likelier tokens. Missing where the "
    "rule's texts are likelier than at the lowest temperature; where they are less likely than "
    "strict's, the curve's value is strict's."
)
SHARPENED_HEADS = (
    *map(Head, ("Rule", "Drafter", "On", "T", "Prompts", "ln p", "As likely at T ×")),
    Head("rule", group="Recovery"),
    Head("lower temperature", group="Recovery"),
    Head("Difference", "rule − lower temperature, by prompt"),
)
CURVES = "Two rules at the same τ"
CURVES_LEAD = (
    "Straight lines join strict and the settings of a rule, score over τ; both are read at the same "
    "τ, within the range that both reach. Intervals by prompt have the error of the curves."
)
CURVES_HEADS = (
    *map(Head, ("Rules", "Drafter", "On", "T", "Prompts", "τ")),
    *(Head(name, group="Score") for name in ("first", "second")),
    Head("Difference", "first − second, by prompt"),
)


def sharpened_section(report: Report) -> Section | None:
    """Return the section; None without such lanes."""
    if not report.sharpened:
        return None
    rows = tuple(_sharpened(report, row) for row in report.sharpened)
    table = ReportTable(SHARPENED, SHARPENED_HEADS, rows)
    return Section("sharpened", SHARPENED, (table,), SHARPENED_LEAD)


def _sharpened(report: Report, row: SharpenedRow) -> tuple[TableCell, ...]:
    lane = report.plan.lanes[row.lane]
    names = (lane.name, lane.drafts, row.group, f"{row.temperature:g}", count(row.prompts))
    return (
        *map(TableCell, names),
        *map(spread, (row.log_likelihood, row.scale)),
        *(spread(each, percent) for each in (row.recovery, row.alone)),
        spread(row.difference, points),
    )


def curve_section(report: Report) -> Section | None:
    """Return the section; None without two rules of several settings."""
    if not report.curves:
        return None
    table = ReportTable(CURVES, CURVES_HEADS, tuple(map(_curve, report.curves)))
    return Section("curves", CURVES, (table,), CURVES_LEAD)


def _curve(row: CurveRow) -> tuple[TableCell, ...]:
    names = (
        *(f"{row.rule}, {row.other}", row.drafts, row.group, f"{row.temperature:g}"),
        *(count(row.prompts), number(row.tau)),
    )
    scores = (spread(each, percent) for each in (row.score, row.other_score))
    return (*map(TableCell, names), *scores, spread(row.difference, points))
