"""Tables of rows whose columns are declared with them, and the sections that are such tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from display.blocks import Head, ReportTable, Section, TableCell
from evaluation.plan.plan import Plan
from evaluation.report.document.cells import known_columns, written
from evaluation.report.metrics import ReportColumn, declared
from evaluation.report.rows import TableRow
from evaluation.report.values import Report

SECTIONS = {  # by field of Report: title and lead
    "interventions": (
        "One relaxed token in strict's own text",
        "Each time one token that strict rejected is relaxed and strict goes on, with the same "
        "noise, so the text differs from strict's by this decision alone. Score, answers that "
        "changed, and ln p of the text after the token, per token, are minus strict's own. A rule "
        "has the tokens that it would relax; minus others is the difference to the other rejected "
        "tokens of the same texts that may be relaxed, minus others of its ranks to those of them "
        "that have the ranks that it admits. Means over prompts "
        "of the means of their tokens, with 95 % intervals by prompt. If a rule's signal tells which "
        "tokens to relax, its score is above that of the others; if its threshold does, beyond the "
        "rank, above that of its ranks too.",
    ),
    "sharpened": (
        "Lower temperature alone",
        "Strict at shares of the temperature, and each rule beside the point of that curve at which "
        "the texts are as likely under the target as the rule's (log-likelihood of a token, at "
        "temperature 1). What the rule keeps beyond that is not explained by likelier tokens. "
        "Missing where the rule's texts are likelier than at the lowest temperature; where they are "
        "less likely than strict's, the curve's value is strict's.",
    ),
    "curves": (
        "Two rules at the same τ",
        "Straight lines join strict and the settings of a rule, score over τ; both are read at the "
        "same τ, within the range that both reach. Intervals by prompt have the error of the curves.",
    ),
}


def row_sections(report: Report) -> list[Section]:
    """Return those that have rows."""
    return [
        Section(name, title, (row_table(report.plan, title, rows),), lead)
        for name, (title, lead) in SECTIONS.items()
        if (rows := getattr(report, name))
    ]


def row_table(
    plan: Plan, label: str, rows: Sequence[TableRow], without: Collection[str] = ()
) -> ReportTable:
    """Return the table of rows of one kind, without columns in which nothing is known. ``without``:
    fields that are left out."""
    settings = [row.setting(plan) for row in rows]
    columns = [(Head(name), [TableCell(each[name]) for each in settings]) for name in settings[0]]
    for name, each in declared(type(rows[0]), ReportColumn).items():
        if name not in without:
            cells = [written(getattr(row, name), each.write) for row in rows]
            columns.append((each.head, cells))
    return known_columns(label, columns)


def vote_section(report: Report) -> Section | None:
    """Return the votes of people and of a language model; None where there are none."""
    kinds = {
        "People, blind, on the same models": report.votes,
        "A language model, both orders": report.judged,
    }
    tables = tuple(row_table(report.plan, label, rows) for label, rows in kinds.items() if rows)
    lead = "Votes between a rule and strict; the share excludes ties, with Wilson's 95 % interval."
    return Section("votes", "Votes", tables, lead) if tables else None
