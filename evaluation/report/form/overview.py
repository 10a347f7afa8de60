"""The table of the paper: a row a rule, the suites across, each with speed-up, τ and recovery. Knows no page."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.format import MISSING, count, plural
from evaluation.report.form.blocks import Block, Cell, Head, Paragraph, Section, Table
from evaluation.report.form.cells import amount, recovery_cell, spread, times
from evaluation.report.form.choose import main_score, rows_of, whole_groups
from evaluation.report.values import Measured, Report

LEAD = (
    "Speed-up: ratio of means, all new tokens over all seconds, against decoding without drafts. τ: all new tokens over all steps. "
    "Recovery: mean score of the suite's first metric over strict's with the same drafts; "
    "at the stated margin ✓ supported, ✗ not supported, ? too few prompts. 95 % intervals in brackets."
)
TOLD = 4  # lanes that the note names
OVER_STRICT = "No lane decodes without drafts: the speed-up is over strict with the same drafts. "


def overview_section(report: Report) -> Section:
    """One table a temperature."""
    temperatures = dict.fromkeys(row.temperature for row in report.measured)
    blocks: list[Block] = [_table(report, temperature) for temperature in temperatures]
    lead = LEAD if report.plan.none is not None else OVER_STRICT + LEAD
    return Section(
        "table", "Speed-up, τ and recovery", tuple(blocks) or (Paragraph("Nothing was measured yet.", "note"),), lead
    )


def _table(report: Report, temperature: float) -> Table:
    groups = whole_groups(report)
    columns = {group: rows_of(report, group, temperature) for group in groups}
    heads = [Head("Rule"), Head("Drafter")]
    for group, rows in columns.items():
        over = f"{group}, {_prompts(rows)}"
        heads += [Head("Speed-up", "", over), Head("τ", "", over)]
        heads += [Head("Recovery", "", over)] if _scored(rows) else []
    lanes = dict.fromkeys(row.lane for rows in columns.values() for row in rows)
    cells = tuple(_row(report, lane, columns) for lane in lanes)
    return Table(f"T = {temperature:g}", tuple(heads), cells, _note(report, columns))


def _prompts(rows: Sequence[Measured]) -> str:
    """Prompts and seeds of most of the rows; ``_note`` tells which have less."""
    prompts, seeds = max(((row.prompts, row.seeds) for row in rows), default=(0, 0))
    return f"{plural(prompts, 'prompt')} × {plural(seeds, 'seed')}"


def _scored(rows: Sequence[Measured]) -> bool:
    return any(row.scores for row in rows)


def _row(report: Report, lane: int, columns: dict[str, tuple[Measured, ...]]) -> tuple[Cell, ...]:
    cells = [Cell(report.plan.lanes[lane].name), Cell(report.plan.lanes[lane].drafts or MISSING)]
    for rows in columns.values():
        found = next((row for row in rows if row.lane == lane), None)
        cells += _cells(report, found, _scored(rows))
    return tuple(cells)


def _cells(report: Report, row: Measured | None, scored: bool) -> list[Cell]:
    if row is None:
        return [Cell(MISSING)] * (3 if scored else 2)
    speedup = row.speedup if report.plan.none is not None else row.speedup_strict
    score = main_score(row)
    cells = [times(speedup), spread(row.tau)]
    return [*cells, recovery_cell(score) if score else Cell(MISSING)] if scored else cells


def _note(report: Report, columns: dict[str, tuple[Measured, ...]]) -> str:
    """The lanes that were measured on less than the head of their column says."""
    less = [
        f"{report.plan.lanes[row.lane].name} {report.plan.lanes[row.lane].drafts}".strip()
        + f" on {row.group}: {amount(row).text}, {count(row.runs)} runs"
        + (f", {count(row.failed)} failed" if row.failed else "")
        for rows in columns.values()
        for row in rows
        if row.failed or (row.prompts, row.seeds) != max((one.prompts, one.seeds) for one in rows)
    ]
    more = f"; and {count(len(less) - TOLD)} more" if len(less) > TOLD else ""
    return f"Measured on less: {'; '.join(less[:TOLD])}{more}." if less else ""
