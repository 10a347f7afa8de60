"""Throughput by load: over the requests in flight or the runs of a batch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evaluation.report.measured import BLANK
from evaluation.report.measuring.grid import Grid, pooled
from evaluation.report.rows import LoadRow
from evaluation.statistics import (
    Array,
    Indices,
    Interval,
    over,
    percentile_intervals,
)


def load_rows(grid: Grid) -> Iterator[LoadRow]:
    """Intervals by prompt. The lanes of a batch are compared with none in a batch of the same
    size."""
    for temperature, load, rows in _cells(grid):
        rates, ratios = _rates(grid, rows, load)
        for lane, (rate, ratio) in enumerate(zip(rates, ratios, strict=True)):
            tokens = float(grid.numbers["new_tokens"][rows, lane].sum())
            alone = grid.plan.served is not None or load == 1
            times = (grid.numbers[name][rows, lane] for name in ("ttft_s", "wall_s"))
            ends = [np.quantile(each if alone else math.nan, (0.5, 0.95)) for each in times]
            yield LoadRow(
                temperature,
                grid.plan.lanes[lane],
                load,
                rate,
                BLANK if lane == grid.plan.none else ratio,
                len(rows),
                rate.value * over(len(rows), tokens),
                *np.concatenate(ends).tolist(),
            )


def _cells(grid: Grid) -> Iterator[tuple[float, int, Indices]]:
    """Yield temperature, load and the tasks that every lane completed with it."""
    plan, batch, used = grid.plan, grid.numbers["batch"], grid.completed.all(axis=1)
    if plan.served:
        loads = np.array([plan.served.load(task.repeat) for task in grid.tasks])
    else:
        loads = batch[:, 0] if plan.auto else np.array([task.batch for task in grid.tasks])
        used = used & (batch == loads[:, None]).all(axis=1) & (plan.batch > 1)
    for temperature in plan.temperatures:
        here = used & (grid.temperature == temperature)
        for load in sorted(set(map(int, loads[here]))):
            yield temperature, load, np.flatnonzero(here & (loads == load))


def _rates(
    grid: Grid, rows: Indices, load: int
) -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
    """Tokens a second of every lane, and over those of none."""
    plan = grid.plan
    # two servers divide the requests in flight
    share = (math.nan if plan.served.baseline_url else load) if plan.served else 1
    numbers = grid.numbers["new_tokens"][rows], _seconds(grid, rows, load)
    prompts, (tokens, seconds) = pooled(grid, rows, *numbers)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = share * tokens / seconds
        ratios = rates / (math.nan if plan.none is None else rates[:, [plan.none]])
    rate, ratio = (percentile_intervals(each.T, prompts) for each in (rates, ratios))
    return rate, ratio


def _seconds(grid: Grid, rows: Indices, load: int) -> Array:
    """Return seconds, [R, L]: of a server and of single runs their time, of a batch their part of
    its time."""
    alone = grid.plan.served or load == 1
    seconds: Array = grid.numbers["wall_s" if alone else "batch_s"][rows]
    return seconds
