"""Throughput by load: measured over the requests in flight or the runs of a batch, and predicted from
the same counters for other batches and K."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from evaluation.planner import MeasuredStep, acceptance_of_counts, step_times
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
from mars_core.types import DrafterConfig


def load_rows(grid: Grid, *, single: bool = False) -> Iterator[LoadRow]:
    """Intervals by prompt. The lanes of a batch are compared with none in a batch of the same
    size. ``single``: also of a study without batches."""
    for temperature, load, rows in _cells(grid, single=single):
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


def _cells(grid: Grid, *, single: bool = False) -> Iterator[tuple[float, int, Indices]]:
    """Temperature, load and the tasks that every lane completed with it. ``single``: also of a
    study without batches."""
    plan, batch, used = grid.plan, grid.numbers["batch"], grid.completed.all(axis=1)
    if plan.served:
        loads = np.array([plan.served.load(task.repeat) for task in grid.tasks])
    else:
        loads = batch[:, 0] if plan.auto else np.array([task.batch for task in grid.tasks])
        used = used & (batch == loads[:, None]).all(axis=1) & (single or plan.batch > 1)
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


def predicted(grid: Grid, loads: Sequence[int], ks: Sequence[int]) -> Iterator[LoadRow]:
    """Predict the rates of none and of every rule that drafts chains, with each K, in batches of
    these sizes: from the times of steps and the acceptance of all runs. Raises ValueError for too
    few."""
    plan = grid.plan
    families = {  # of several K the largest
        (lane.name, replace(lane.drafter, k=0)): number
        for number, lane in sorted(enumerate(plan.lanes), key=lambda each: each[1].drafter.k)
        if lane.drafts and not lane.drafter.tree and not lane.is_control
    }
    for temperature in plan.temperatures:
        cells = [cell for cell in _cells(grid, single=True) if cell[0] == temperature]
        for (_, drafter), number in families.items():
            times = step_times(list(_steps(grid, cells, drafter)))
            if times is None:
                raise ValueError(
                    f"The study has too few different steps with {drafter.kind} at temperature "
                    f"{temperature:g}; a prediction needs none or two K, in single runs or in "
                    "batches of two sizes."
                )
            rows = np.concatenate([rows for *_, rows in cells])
            accepted, drafted = (
                each[rows, number].sum(axis=0).tolist() for each in (grid.kept_at, grid.drafted_at)
            )
            acceptance = acceptance_of_counts(accepted, drafted)
            for load, k in product(loads, (0, *ks)):
                lane = replace(plan.lanes[number], drafter=replace(drafter, k=k))
                rate = Interval(load * acceptance.tokens(k) / times.of(load, k))
                none = load / times.of(load, 0)
                if k:
                    yield LoadRow(temperature, lane, load, rate, Interval(rate.value / none))
                elif plan.none is not None and number == min(families.values()):
                    yield LoadRow(temperature, plan.lanes[plan.none], load, rate, BLANK)


def errors(grid: Grid) -> Iterator[float]:
    """Predicted over measured rates − 1, of every lane and load that can be predicted."""
    measured = {_setting(row): row.tokens_per_s.value for row in load_rows(grid, single=True)}
    loads = sorted({load for _, load, _ in _cells(grid, single=True)})
    ks = sorted({lane.drafter.k for lane in grid.plan.lanes if lane.drafts})
    for row in predicted(grid, loads, ks):
        if rate := measured.get(_setting(row)):
            yield row.tokens_per_s.value / rate - 1


def _setting(row: LoadRow) -> tuple[float, int, str, str]:
    return row.temperature, row.load, row.lane.name, row.lane.drafts


def _steps(
    grid: Grid, cells: Iterable[tuple[float, int, Indices]], drafter: DrafterConfig
) -> Iterator[MeasuredStep]:
    """Yield the steps of none and of the lanes with this drafter."""
    for _, load, rows in cells:
        seconds = _seconds(grid, rows, load).sum(axis=0)
        steps, draft_s = (grid.numbers[name][rows].sum(axis=0) for name in ("steps", "draft_s"))
        for number, lane in enumerate(grid.plan.lanes):
            k = lane.drafter.k if lane.drafts else 0
            if not lane.drafts or replace(lane.drafter, k=0) == drafter:
                each = load * seconds[number] / steps[number], draft_s[number] / steps[number]
                yield MeasuredStep(load, k, *map(float, each))
