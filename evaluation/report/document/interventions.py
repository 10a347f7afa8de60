"""What followed single relaxed tokens of strict's texts, as a section."""

from __future__ import annotations

from display.blocks import Head, ReportTable, Section, TableCell
from display.format import MISSING, count, percent, signed
from evaluation.report.document.cells import points, spread
from evaluation.report.values import InterventionRow, Report

TITLE = "One relaxed token in strict's own text"
LEAD = (
    "Each time one token that strict rejected is relaxed and strict goes on, with the same noise, so "
    "the text differs from strict's by this decision alone. Score, answers that changed, and ln p of "
    "the text after the token, per token, are minus strict's own. A rule has the tokens that it "
    "would relax; others are the other rejected tokens of the same texts that may be relaxed, those "
    "of its ranks have the ranks that it admits. Means over prompts of the means of their tokens, "
    "with 95 % intervals by prompt. If a rule's signal tells which tokens to relax, its score is "
    "above that of the others; if its threshold does, beyond the rank, above that of its ranks too."
)
OTHERS, NEAR = "minus others", "minus others of its ranks"
HEADS = (
    *(Head(name) for name in ("Tokens of", "Drafter", "T", "Tokens", "Prompts")),
    *(Head(name) for name in ("Score", "Changed", "ln p", "Meets", "After")),
    *(Head(name, group=OTHERS) for name in ("Score", "Changed", "ln p")),
    *(Head(name, group=NEAR) for name in ("Score", "Changed", "ln p")),
)


def intervention_section(report: Report) -> Section | None:
    """Return the section; None for a study without interventions."""
    if not report.interventions:
        return None
    rows = tuple(_cells(report, row) for row in report.interventions)
    return Section("interventions", TITLE, (ReportTable(TITLE, HEADS, rows),), LEAD)


def _cells(report: Report, row: InterventionRow) -> tuple[TableCell, ...]:
    drafts = report.plan.lanes[row.lane].drafts or MISSING
    name = (row.name, drafts, f"{row.temperature:g}", count(row.tokens), count(row.prompts))
    return (
        *map(TableCell, name),
        spread(row.score, points),
        spread(row.changed, percent),
        spread(row.logprob, signed),
        spread(row.meets, percent),
        spread(row.meets_after),
        *(spread(each, points) for each in (row.score_others, row.changed_others)),
        spread(row.logprob_others, signed),
        *(spread(each, points) for each in (row.score_near, row.changed_near)),
        spread(row.logprob_near, signed),
    )
