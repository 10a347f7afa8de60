"""The prompts of a report, worst first: as a table, and with the texts of strict and of the rule,
split at the first difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from display.blocks import (
    Block,
    Head,
    Opened,
    Paragraph,
    ReportTable,
    Section,
    Side,
    TableCell,
)
from display.format import MISSING, bounded, count, number, plural, ratio, shorten
from display.names import drafts_label
from evaluation.plan.plan import Plan
from evaluation.report.rows import PromptRow
from evaluation.report.values import Report

NAME, TITLE = "prompts", "Prompts, worst first"
MOST_ROWS = 50  # prompts in the table of a report; prompts.csv has all
OPENED = 20  # of them with their texts
GONE = "The texts of these runs are no longer in the database."
HEADS = (
    Head("Prompt"),
    Head("Suite"),
    Head("Rule"),
    Head("T", "temperature"),
    Head("Lost", "main score summed over the runs that scored lower than strict's"),
    Head("Gained", "and higher"),
    Head("Differ", "runs whose tokens are not strict's, of all"),
    Head("First difference", "earliest output position, from 0"),
    Head("TV a run", "summed total variation, mean over seeds"),
    Head("Length", "new tokens over strict's"),
)


class Texts(NamedTuple):
    """The answers of strict and of the rule to one prompt with one seed."""

    baseline: str
    rule: str
    comparison: str = ""  # id of the comparison that both belong to
    turn: int = 0  # of several turns, from 1: the first that differs
    runs: tuple[str, ...] = ()  # ids


def prompt_section(report: Report, texts: Mapping[tuple[str, str], Texts] | None) -> Section:
    """``texts``: by ``PromptRow.worst``, of the first prompts; missing where runs were deleted.
    None: no texts at all."""
    rows, total = report.prompts[:MOST_ROWS], len(report.prompts)
    if not rows:
        return Section(
            NAME, TITLE, (Paragraph("No prompt was run by a rule and by strict yet.", "note"),)
        )
    lead = "One row per prompt and rule, with all its seeds at one temperature; the largest loss first."
    lead += (
        f" The first {count(MOST_ROWS)} of {count(total)}; prompts.csv has all."
        if total > MOST_ROWS
        else ""
    )
    blocks: list[Block] = [
        ReportTable(TITLE, HEADS, tuple(prompt_cells(report.plan, row) for row in rows))
    ]
    if texts is not None:
        lead += f" The first {min(OPENED, len(rows))} can be opened below: the run that lost most, beside strict's."
        blocks += [opened(report.plan, row, texts.get(row.worst)) for row in rows[:OPENED]]
    return Section(NAME, TITLE, tuple(blocks), lead)


def prompt_cells(plan: Plan, row: PromptRow) -> tuple[TableCell, ...]:
    lane = plan.lanes[row.lane]
    kind = lane.tv_kind(row.temperature)
    first = MISSING if row.divergence is None else count(row.divergence)
    return (
        TableCell(shorten(row.prompt, 90), shorten(row.item, 60)),
        TableCell(row.suite, row.category),
        TableCell(lane.title, drafts_label(lane.drafts)),
        TableCell(f"{row.temperature:g}"),
        TableCell(number(row.lost), "", "bad" if row.lost > row.gained else ""),
        TableCell(number(row.gained)),
        TableCell(f"{count(row.differ)} of {count(row.runs)}"),
        TableCell(first),
        TableCell(bounded(number(row.tv_sum), kind)),
        TableCell(ratio(row.length_ratio)),
    )


def opened(plan: Plan, row: PromptRow, texts: Texts | None) -> Opened:
    """Return one prompt in full, with both texts if they are stored."""
    lane = plan.lanes[row.lane]
    items = (
        item
        for suite in plan.suites
        if suite.name == row.suite
        for item in suite.items
        if item.id == row.item
    )
    item = next(items, None)
    prompt, reference = (
        ("\n\n".join(item.turns), "\n".join(item.references)) if item else (row.prompt, "")
    )
    title = f"{shorten(row.prompt, 70)} ({shorten(row.item, 40)})"
    drafts = drafts_label(lane.drafts)
    facts = (
        f"{row.suite}{f', {row.category}' if row.category else ''}, {lane.title}, {drafts}, T "
        f"= {row.temperature:g}: lost {number(row.lost)}, gained {number(row.gained)} in "
        f"{plural(row.runs, 'run')}, of which {count(row.differ)} differ"
    )
    if texts is None:
        return Opened(title, facts, prompt, reference, (), GONE)
    pairs = enumerate(zip(texts.baseline, texts.rule, strict=False))
    shorter = min(len(texts.baseline), len(texts.rule))
    at = next((at for at, (left, right) in pairs if left != right), shorter)
    sides = (Side(f"strict, {drafts}", texts.baseline, at), Side(lane.title, texts.rule, at))
    return Opened(
        title, facts + (f"; turn {texts.turn}" if texts.turn else ""), prompt, reference, sides
    )
