"""The prompts of a study under every rule, worst first."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evaluation.report.grid import Array, Grid, items_of
from evaluation.report.values import PromptRow

BEGINNING = 160  # characters of a prompt


def prompt_rows(grid: Grid) -> tuple[PromptRow, ...]:
    """Every item at every temperature under every lane that has a baseline, of runs completed in both.

    First what lost most score; then by the share of runs that differ, where the texts part, summed TV, and the plan.
    """
    rows = [row for lane in range(len(grid.plan.lanes)) if grid.baseline(lane) != lane for row in _lane(grid, lane)]
    return tuple(sorted(rows, key=_badness))


def _badness(row: PromptRow) -> tuple[float, float, float, float]:
    divergence = math.inf if row.divergence is None else row.divergence
    return -row.lost, -row.differ / row.runs, divergence, 0.0 if math.isnan(row.tv_sum) else -row.tv_sum


def _lane(grid: Grid, lane: int) -> Iterator[PromptRow]:
    """In the order of items and temperatures."""
    baseline, items = grid.baseline(lane), items_of(grid.plan)
    rows = np.flatnonzero(grid.completed[:, lane] & grid.completed[:, baseline])
    change = np.nan_to_num(grid.main_scores[rows, lane] - grid.main_scores[rows, baseline], nan=0.0)
    first = np.nan_to_num(grid.numbers["divergence"][rows, lane], nan=np.inf)
    keys = np.stack([grid.item[rows].astype(np.float64), grid.temperature[rows]], axis=1)
    settings, setting = np.unique(keys, axis=0, return_inverse=True)
    setting = setting.reshape(-1)
    order = np.lexsort((first, change, setting))
    worst = rows[order[np.unique(setting[order], return_index=True)[1]]]  # the run that lost most, else parted earliest
    earliest = np.full(len(settings), np.inf)
    np.minimum.at(earliest, setting, first)

    def total(values: Array) -> Array:
        return np.bincount(setting, values, minlength=len(settings)).astype(np.float64)

    runs, differ = total(np.ones(len(rows))), total(np.nan_to_num(1 - grid.numbers["same"][rows, lane]))
    gained, lost = total(change.clip(0)), total((-change).clip(0))
    tv = total(grid.numbers["tv_sum"][rows, lane]) / runs
    with np.errstate(divide="ignore", invalid="ignore"):
        length_ratio = total(grid.numbers["new_tokens"][rows, lane]) / total(grid.numbers["new_tokens"][rows, baseline])
    for number, (item, temperature) in enumerate(settings):
        suite, entry = items[int(item)]
        pairs = tuple(zip(grid.run_ids[worst[number], baseline], grid.run_ids[worst[number], lane], strict=False))
        yield PromptRow(
            suite=suite,
            category=entry.category,
            item=entry.id,
            prompt=entry.turns[0][:BEGINNING],
            temperature=float(temperature),
            lane=lane,
            runs=int(runs[number]),
            differ=int(differ[number]),
            gained=float(gained[number]),
            lost=float(lost[number]),
            divergence=int(earliest[number]) if np.isfinite(earliest[number]) else None,
            tv_sum=float(tv[number]),
            length_ratio=float(length_ratio[number]),
            worst=pairs[0] if pairs else ("", ""),
            turns=pairs,
        )
