"""Numbers of a report as cells: the value, its 95 % interval under it, what it was measured on. Knows no page."""

from __future__ import annotations

import math
from collections.abc import Callable

from evaluation.format import MINUS, MISSING, count, number, ratio
from evaluation.report.form.blocks import Cell
from evaluation.report.values import Interval, Measured, Outcome, Score, Verdict

Write = Callable[[float], str]
MARKS = {Outcome.SUPPORTED: "good", Outcome.NOT_SUPPORTED: "bad", Outcome.TOO_FEW: "open"}
SIGNS = {Outcome.SUPPORTED: "✓", Outcome.NOT_SUPPORTED: "✗", Outcome.TOO_FEW: "?"}  # so that no colour is needed


def percent(value: float) -> str:
    """A share of one to a tenth of a percent, so that a column can be compared with the margin."""
    return MISSING if math.isnan(value) else f"{_digits(100 * value, 1)} %"


def margin(value: float) -> str:
    """A margin as it was stated: ``98 %``."""
    return f"{100 * value:g} %"


def points(value: float) -> str:
    """A difference of shares, signed, in percentage points."""
    return MISSING if math.isnan(value) else f"{_signed(100 * value, 1)} pp"


def signed(value: float) -> str:
    """A signed difference."""
    return MISSING if math.isnan(value) else f"{'+' if value > 0 else ''}{number(value)}"


def probability(p: float) -> str:
    """A p value; below 0.001 only that."""
    return MISSING if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def between(interval: Interval, write: Write = number) -> str:
    """``[1.18, 1.29]``, units left out; empty where there is no interval."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return ""
    ends = (write(end).removesuffix(" pp").removesuffix(" %").removesuffix("×") for end in interval[1:])
    return f"[{', '.join(ends)}]"


def spread(interval: Interval, write: Write = number) -> Cell:
    """A value over its interval."""
    return Cell(write(interval.value), between(interval, write))


def beside(interval: Interval, write: Write = number) -> str:
    """The same within a sentence."""
    return f"{write(interval.value)} {between(interval, write)}".rstrip()


def times(interval: Interval) -> Cell:
    return spread(interval, ratio)


def amount(measured: Measured) -> Cell:
    """``300 × 3``: prompts and seeds; under it what else there is to say of the runs."""
    small = f"{count(measured.runs)} runs" if measured.runs != measured.prompts * measured.seeds else ""
    failed = f"{count(measured.failed)} failed" if measured.failed else ""
    words = ", ".join(part for part in (small, failed) if part)
    return Cell(f"{count(measured.prompts)} × {count(measured.seeds)}", words, "bad" if measured.failed else "")


def verdict_cell(verdict: Verdict | None) -> Cell:
    """The verdict in a word, with what is missing under it."""
    if verdict is None:
        return Cell(MISSING)
    needed = f"need about {count(verdict.needed)}" if verdict.needed is not None else ""
    return Cell(
        f"{SIGNS[verdict.outcome]} {verdict.outcome}",
        needed if verdict.outcome is Outcome.TOO_FEW else "",
        MARKS[verdict.outcome],
    )


def recovery_cell(score: Score) -> Cell:
    """Recovery with the sign of its verdict, where it has one."""
    cell = spread(score.recovery, percent)
    if score.verdict is None:
        return cell
    return Cell(f"{SIGNS[score.verdict.outcome]} {cell.text}", cell.small, MARKS[score.verdict.outcome])


def mean_cell(interval: Interval, score: Score) -> Cell:
    """A score: of right or wrong as a percentage, else as 0 to 1."""
    return spread(interval, percent if score.binary else number)


def difference_cell(score: Score) -> Cell:
    return spread(score.difference, points if score.binary else signed)


def test_cells(score: Score) -> tuple[Cell, Cell]:
    """Answers lost and gained; McNemar's p; under it the one by prompts, and that after Holm's correction."""
    test = score.mcnemar
    if test is None:
        return Cell(MISSING), Cell(MISSING)
    by_prompt = "" if math.isnan(test.p_by_prompt) else f"by prompt {probability(test.p_by_prompt)}"
    by_prompt += "" if math.isnan(test.p_holm) else f", Holm {probability(test.p_holm)}"
    return Cell(f"{MINUS}{count(test.lost)} / +{count(test.gained)}"), Cell(probability(test.p), by_prompt)


def _digits(value: float, places: int) -> str:
    return f"{value:,.{places}f}".replace("-", MINUS)


def _signed(value: float, places: int) -> str:
    text = _digits(value, places)
    return text if text.startswith(MINUS) or not round(value, places) else f"+{text}"
