"""The prompts of a study under every rule, worst first. Knows no store."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evaluation.report.grid import Array, Grid, Places, items_of
from evaluation.report.values import PromptRow

BEGINNING = 160  # characters of a prompt


def prompt_rows(grid: Grid) -> tuple[PromptRow, ...]:
    """Every item at every temperature under every lane that has a baseline, of runs completed in both.

    First what lost most score; then by the share of runs that differ, where the texts part, summed TV, and the plan.
    """
    rows = [row for lane in range(len(grid.plan.lanes)) if grid.baseline(lane) != lane for row in _lane(grid, lane)]
    return tuple(sorted(rows, key=_badness))


def _lane(grid: Grid, lane: int) -> Iterator[PromptRow]:
    """In the order of items and temperatures."""
    baseline, items = grid.baseline(lane), items_of(grid.plan)
    places = np.flatnonzero(grid.completed[:, lane] & grid.completed[:, baseline])
    main = grid.main_scores
    change = np.nan_to_num(main[places, lane] - main[places, baseline], nan=0.0)
    parted = grid.numbers["divergence"][places, lane]
    keys = np.stack([grid.item[places].astype(np.float64), grid.temperature[places]], axis=1)
    settings, row = np.unique(keys, axis=0, return_inverse=True)
    row = row.reshape(-1)
    worst = _worst(row, change, parted)

    def total(values: Array) -> Array:
        return np.bincount(row, values, minlength=len(settings)).astype(np.float64)

    runs, differ = total(np.ones(len(places))), total(np.nan_to_num(1 - grid.numbers["same"][places, lane]))
    gained, lost = total(change.clip(0)), total((-change).clip(0))
    tv = total(grid.numbers["tv_sum"][places, lane]) / runs
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = grid.numbers["new_tokens"][places]
        length_ratio = total(tokens[:, lane]) / total(tokens[:, baseline])
    first = np.full(len(settings), np.inf)
    np.minimum.at(first, row, np.where(np.isnan(parted), np.inf, parted))
    for number, (item, temperature) in enumerate(settings):
        suite, asked = items[int(item)]
        turns = _turns(grid, int(places[worst[number]]), baseline, lane)
        yield PromptRow(
            suite=suite,
            category=asked.category,
            item=asked.id,
            prompt=asked.turns[0][:BEGINNING],
            temperature=float(temperature),
            lane=lane,
            runs=int(runs[number]),
            differ=int(differ[number]),
            gained=float(gained[number]),
            lost=float(lost[number]),
            divergence=int(first[number]) if np.isfinite(first[number]) else None,
            tv_sum=float(tv[number]),
            length_ratio=float(length_ratio[number]),
            worst=turns[0] if turns else ("", ""),
            turns=turns,
        )


def _worst(row: Places, change: Array, parted: Array) -> Places:
    """Of each row the run that lost most, else parted earliest."""
    order = np.lexsort((np.nan_to_num(parted, nan=np.inf), change, row))
    _, first = np.unique(row[order], return_index=True)
    worst: Places = order[first]
    return worst


def _turns(grid: Grid, place: int, baseline: int, lane: int) -> tuple[tuple[str, str], ...]:
    return tuple(zip(grid.run_ids[place, baseline], grid.run_ids[place, lane], strict=False))


def _badness(row: PromptRow) -> tuple[float, float, float, float]:
    divergence = math.inf if row.divergence is None else row.divergence
    return -row.lost, -row.differ / row.runs, divergence, 0.0 if math.isnan(row.tv_sum) else -row.tv_sum
