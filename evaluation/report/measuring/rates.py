"""τ and speed by category and prompt length, and throughput by load: over the requests in flight
or the runs of a batch. Each over the tasks that all lanes completed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evaluation.report.measured import BLANK
from evaluation.report.measuring.grid import Grid, Mask, items_of
from evaluation.report.rows import LengthRow, LoadRow
from evaluation.statistics import Array, over

_SUMMED = ("new_tokens", "steps", "wall_s", "prompt_tokens")


def length_rows(grid: Grid) -> Iterator[LengthRow]:
    """Yield every lane: all tasks, then by category where there are several. The length of a prompt
    is that of its suite, or else the power of two that it does not exceed."""
    plan, lengths = grid.plan, _lengths(grid)
    names = np.array([item.category or suite for suite, item in items_of(plan)])[grid.item]
    used = grid.completed.all(axis=1) & (lengths > 0)
    categories = list(dict.fromkeys(names[used].tolist()))
    for temperature in plan.temperatures:
        for category in ("", *(categories if len(categories) > 1 else ())):
            here = used & (grid.temperature == temperature) & ((names == category) | (not category))
            for length, part in _by(grid, here, lengths):
                totals = part.totals(*(part.numbers[name] for name in _SUMMED))
                tokens, steps, seconds, read = totals
                with np.errstate(divide="ignore", invalid="ignore"):
                    taus, rates = tokens / steps, tokens / seconds
                    gains = part.over_none(rates)
                for lane, (tau, rate, gain) in enumerate(part.by_lane(taus, rates, gains)):
                    yield LengthRow(
                        *(lane, temperature, category, length, part.prompts, len(part.item)),
                        over(float(read[0, lane]), len(part.item)),
                        tau if plan.lanes[lane].drafts else BLANK,
                        rate,
                        BLANK if lane == plan.none else gain,
                    )


def _by(grid: Grid, here: Mask, values: Array) -> Iterator[tuple[int, Grid]]:
    """Yield the tasks ``here`` with each of the values, ascending."""
    for value in np.unique(values[here]):
        yield int(value), grid.part(here & (values == value))


def _lengths(grid: Grid) -> Array:
    """Return the length of each task, [T]; 0 where it is not known."""
    own = np.array([suite.tokens for suite in grid.plan.suites for _ in suite.items])[grid.item]
    tokens = np.nan_to_num(grid.numbers["prompt_tokens"].max(axis=1), nan=0.0)
    rounded = np.exp2(np.ceil(np.log2(np.maximum(tokens, 1)))) * (tokens > 0)
    lengths: Array = np.where(own > 0, own, rounded)
    return lengths


def load_rows(grid: Grid) -> Iterator[LoadRow]:
    """Yield every lane by temperature and load, with intervals by prompt. The lanes of a batch are
    compared with none in a batch of the same size."""
    plan, batch, used = grid.plan, grid.numbers["batch"], grid.completed.all(axis=1)
    if plan.served:
        loads = np.array([plan.served.load(repeat) for repeat in grid.repeat.tolist()], np.float64)
    else:
        loads = batch[:, 0] if plan.auto else grid.size.astype(np.float64)
        used = used & (batch == loads[:, None]).all(axis=1) & (plan.batch > 1)
    for temperature in plan.temperatures:
        for load, part in _by(grid, used & (grid.temperature == temperature), loads):
            yield from _loaded(part, temperature, load)


def _loaded(part: Grid, temperature: float, load: int) -> Iterator[LoadRow]:
    """Yield the rate of every lane at a load. Time is that of the runs of a server and of single
    runs, of a batch their part of its time, and nan of a single run of it."""
    plan, runs = part.plan, len(part.item)
    alone = plan.served is not None or load == 1
    # two servers divide the requests in flight
    share = (math.nan if plan.served.baseline_url else load) if plan.served else 1
    tokens, seconds = part.totals(
        part.numbers["new_tokens"], part.numbers["wall_s" if alone else "batch_s"]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = share * tokens / seconds
        gains = part.over_none(rates)
    for lane, (rate, gain) in enumerate(part.by_lane(rates, gains)):
        times = (part.numbers[name][:, lane] for name in ("ttft_s", "wall_s"))
        ends = [np.quantile(each if alone else math.nan, (0.5, 0.95)) for each in times]
        yield LoadRow(
            temperature,
            plan.lanes[lane],
            load,
            rate,
            BLANK if lane == plan.none else gain,
            runs,
            rate.value * over(runs, float(tokens[0, lane])),
            *np.concatenate(ends).tolist(),
        )
