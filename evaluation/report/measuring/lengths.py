"""τ and speed by category and prompt length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evaluation.report.measured import BLANK
from evaluation.report.measuring.grid import Grid, items_of, pooled
from evaluation.report.rows import LengthRow
from evaluation.statistics import (
    Array,
    Indices,
    Interval,
    over,
    percentile_intervals,
)

_SUMMED = ("new_tokens", "steps", "wall_s", "prompt_tokens")


def length_rows(grid: Grid) -> Iterator[LengthRow]:
    """Yield every lane over the tasks that all lanes completed: all of them, then by category where
    there are several. The length of a prompt is that of its suite, or else the power of two that
    it does not exceed."""
    plan, items = grid.plan, items_of(grid.plan)
    lengths = _lengths(grid)
    names = np.array([item.category or suite for suite, item in items])[grid.item]
    used = grid.completed.all(axis=1) & (lengths > 0)
    categories = list(dict.fromkeys(names[used].tolist()))
    for temperature in plan.temperatures:
        here = used & (grid.temperature == temperature)
        for category in ("", *(categories if len(categories) > 1 else ())):
            of = here & (names == category) if category else here
            for length in sorted(set(lengths[of].tolist())):
                rows = np.flatnonzero(of & (lengths == length))
                yield from _rows(grid, rows, temperature, category, int(length))


def _lengths(grid: Grid) -> Array:
    """Return the length of each task, [T]; 0 where it is not known."""
    own = np.array([suite.tokens for suite in grid.plan.suites for _ in suite.items])[grid.item]
    tokens = np.nan_to_num(grid.numbers["prompt_tokens"].max(axis=1), nan=0.0)
    rounded = np.exp2(np.ceil(np.log2(np.maximum(tokens, 1)))) * (tokens > 0)
    lengths: Array = np.where(own > 0, own, rounded)
    return lengths


def _rows(
    grid: Grid, rows: Indices, temperature: float, category: str, length: int
) -> Iterator[LengthRow]:
    plan = grid.plan
    prompts, totals = pooled(grid, rows, *(grid.numbers[name][rows] for name in _SUMMED))
    tokens, steps, seconds, read = totals
    with np.errstate(divide="ignore", invalid="ignore"):
        tau, rate = tokens / steps, tokens / seconds
        none = np.nan if plan.none is None else rate[:, [plan.none]]
        values = [percentile_intervals(each.T, prompts) for each in (tau, rate, rate / none)]
    for lane, settings in enumerate(plan.lanes):
        taus, rates, gains = (each[lane] for each in values)
        yield LengthRow(
            *(lane, temperature, category, length, prompts, len(rows)),
            over(float(read[0, lane]), len(rows)),
            taus if settings.drafts else Interval(),
            rates,
            BLANK if lane == plan.none else gains,
        )
