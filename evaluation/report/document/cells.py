"""Numbers of a report as table cells: the value, its 95 % interval under it, and its sample
size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from display.blocks import Head, ReportTable, TableCell
from display.format import MINUS, MISSING, count, number, plural, probability
from evaluation.recovery import RecoveryOutcome
from evaluation.report.measured import Measured, Score
from evaluation.report.metrics import Write
from evaluation.statistics import Interval

LOOKS = {  # a symbol beside the mark, so that it does not depend on colour
    RecoveryOutcome.SUPPORTED: ("✓", "good"),
    RecoveryOutcome.NOT_SUPPORTED: ("✗", "bad"),
    RecoveryOutcome.TOO_FEW: ("?", "open"),
}


def margin(value: float) -> str:
    """Write a margin: ``98 %``."""
    return f"{100 * value:g} %"


def between(interval: Interval, write: Write = number) -> str:
    """Write ``[1.18, 1.29]``, units left out; empty where there is no interval."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return ""
    ends = (
        write(end).removesuffix(" points").removesuffix(" %").removesuffix("×")
        for end in interval[1:]
    )
    return f"[{', '.join(ends)}]"


def spread(interval: Interval, write: Write = number) -> TableCell:
    """Write a value over its interval."""
    return TableCell(write(interval.value), between(interval, write))


def written(value: Any, write: Write) -> TableCell:
    """Write a value, with its interval if it has one."""
    return spread(value, write) if isinstance(value, Interval) else TableCell(write(value))


def beside(interval: Interval, write: Write = number) -> str:
    """Write a value with its interval, within a sentence."""
    return f"{write(interval.value)} {between(interval, write)}".rstrip()


def known_columns(label: str, columns: Iterable[tuple[Head, Sequence[TableCell]]]) -> ReportTable:
    """Return a table without the columns that have no value in any row."""
    known = [each for each in columns if any(cell.text != MISSING for cell in each[1])]
    lines = zip(*(cells for _, cells in known), strict=True)
    return ReportTable(label, tuple(head for head, _ in known), tuple(lines))


def amount(measured: Measured) -> TableCell:
    """Write ``300 × 3``: prompts and seeds; under it the number of runs if fewer, and failed
    runs."""
    runs = (
        [plural(measured.runs, "run")] if measured.runs != measured.prompts * measured.seeds else []
    )
    failed = [f"{count(measured.failed)} failed"] if measured.failed else []
    small = ", ".join(runs + failed)
    return TableCell(
        f"{count(measured.prompts)} × {count(measured.seeds)}", small, "bad" if failed else ""
    )


def marked(cell: TableCell, verdict: RecoveryOutcome | None) -> TableCell:
    """Put the symbol of a verdict, if any, before the text of a cell."""
    if verdict is None:
        return cell
    sign, mark = LOOKS[verdict]
    return cell._replace(text=f"{sign} {cell.text}", mark=mark)


def lost_cell(score: Score) -> TableCell:
    """Number of answers lost and gained."""
    test = score.mcnemar
    return TableCell(
        MISSING if test is None else f"{MINUS}{count(test.lost)} / +{count(test.gained)}"
    )


def test_cell(score: Score) -> TableCell:
    """Write McNemar's p; under it p by prompts, and that after Holm's correction."""
    test = score.mcnemar
    if test is None:
        return TableCell(MISSING)
    by_prompt = "" if math.isnan(test.p_by_prompt) else f"by prompt {probability(test.p_by_prompt)}"
    by_prompt += "" if math.isnan(test.p_holm) else f", Holm {probability(test.p_holm)}"
    return TableCell(probability(test.p), by_prompt)
