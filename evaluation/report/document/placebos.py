"""Rules beside random relaxation of as many tokens, as a section."""

from __future__ import annotations

from display.blocks import Head, ReportTable, Section, TableCell
from display.format import MISSING, count, number, percent
from evaluation.report.document.cells import probability, spread
from evaluation.report.values import PlaceboRow, Report

TITLE = "Random relaxation of as many tokens"
LEAD = (
    "In each text as many of the rejections that may be relaxed as the rule relaxed there, drawn "
    "without replacement: among all, which asks whether the rule selects at all, and for rules that "
    "admit only the two best tokens among rejections of these, which asks whether its threshold "
    "selects beyond the rank. Scores and counts are means of the draws. Shortfall: what was still due "
    "where the text ended first. p: that scores are equal, and that they differ by more than the "
    "region of equivalence, with Holm's correction over all these comparisons."
)
HEADS = (
    *map(Head, ("Rule", "Drafter", "On", "T", "Among", "Draws", "Runs")),
    Head("rule", group="Relaxed a text"),
    Head("random", group="Relaxed a text"),
    Head("shortfall", group="Relaxed a text"),
    Head("rule", group="Same as strict"),
    Head("random", group="Same as strict"),
    Head("Random / rule", "mean scores"),
    *map(Head, ("Outcome", "p equal", "p region")),
)


def placebo_section(report: Report) -> Section | None:
    """Return the section; None without placebos."""
    if not report.placebos:
        return None
    rows = tuple(_cells(report, row) for row in report.placebos)
    return Section("placebos", TITLE, (ReportTable(TITLE, HEADS, rows),), LEAD)


def _cells(report: Report, row: PlaceboRow) -> tuple[TableCell, ...]:
    plan, test = report.plan, row.test
    lane, placebo = plan.lanes[row.lane], plan.lanes[row.placebo]
    among = "the two best" if placebo.best else "all" if row.exact else "all, one probability"
    texts = (
        *(lane.name, lane.drafts, row.group, f"{row.temperature:g}", among),
        *map(count, (plan.placebo_seeds, row.runs)),
        *map(number, (row.rule_relaxed, row.relaxed)),
        number(row.shortfall) if row.exact else MISSING,
        *map(percent, (row.rule_same, row.same)),
    )
    names = map(TableCell, texts)
    if test is None:
        return (*names, *[TableCell(MISSING)] * 4)
    p = map(TableCell, map(probability, (test.p_differ, test.p_region)))
    return (*names, spread(test.ratio, percent), TableCell(test.outcome.value), *p)
