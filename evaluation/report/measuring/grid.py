"""A study's results as arrays, tasks × lanes, and its parts that are measured together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluation.item import Item
from evaluation.plan.plan import Plan
from evaluation.plan.stored import readable
from evaluation.report.values import ALL
from evaluation.statistics import (
    Array,
    Indices,
    Interval,
    percentile_intervals,
    totals_by_prompt,
)
from evaluation.study.result import NAN, LaneResult, Relative
from mars_core.types import Status
from storage import StoredResult

Mask = NDArray[np.bool_]
Objects = NDArray[np.object_]

_NUMBERS = ("float", "int", "bool", "int | None", "bool | None")
RESULT, RELATIVE = (
    tuple(each.name for each in fields(kind) if each.type in _NUMBERS)
    for kind in (LaneResult, Relative)
)
# which older studies lack: what may be unknown
_LATER = {"batch", *(each.name for each in fields(LaneResult) if each.default is NAN)}


class Grid(NamedTuple):
    """T tasks that were begun, in order, each with the L lanes of the averaged plan: the draws of a
    placebo are one lane, with the means of what all of them measured, once all are completed.
    Values that were not measured are nan; every array has a row for each task."""

    plan: Plan
    item: Indices  # number of the task's item over all suites, [T]
    template: Indices  # number of the item's template; an item without one has its own, [T]
    repeat: Indices  # [T]
    temperature: Array  # [T]
    size: Indices  # of the batch that was planned, [T]
    completed: Mask  # [T, L]
    failed: Mask  # a result that is not completed, [T, L]
    numbers: Mapping[
        str, Array
    ]  # by field of LaneResult and Relative, or as ``_numbers`` says, [T, L]
    drafted_at: Array  # steps that drafted a token at draft position i + 1, [T, L, K]
    kept_at: Array  # and accepted it, strictly or relaxed
    scores: Mapping[str, Array]  # by metric, [T, L]
    main: Objects  # each task's main metric; empty where nothing is scored, [T]
    main_scores: Array  # every task by its main metric, [T, L]
    run_ids: Objects  # one per turn; None without a result, [T, L]
    causes: tuple[str, ...]  # of all divergences

    def part(self, chosen: Mask) -> Grid:
        """Return these tasks alone."""

        def of(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: array[chosen] for name, array in value.items()}
            return value[chosen] if isinstance(value, np.ndarray) else value

        return Grid(*map(of, self))

    @property
    def prompts(self) -> int:
        """How many prompts these tasks have."""
        return len(np.unique(self.item))

    @property
    def prompt(self) -> Indices:
        """The number of each task's item among those of these tasks, [T]."""
        return np.unique(self.item, return_inverse=True)[1].astype(np.intp)

    def baseline(self, lane: int) -> int:
        """Return the baseline of a lane; a baseline's is itself."""
        strict = self.plan.baseline(lane)
        return lane if strict is None else strict

    @property
    def baselines(self) -> list[int]:
        """That of every lane."""
        return list(map(self.baseline, range(len(self.plan.lanes))))

    def in_compared(self, marks: Mask) -> Mask:
        """Return where a mark, [T, L], is in the lane, its baseline and ``none``."""
        both: Mask = marks & marks[:, self.baselines]
        return both if self.plan.none is None else both & marks[:, [self.plan.none]]

    @property
    def used(self) -> Mask:
        """Runs that were completed in the lane, its baseline and ``none``, [T, L]."""
        return self.in_compared(self.completed)

    def number(self, name: str) -> Array:
        """Return a number of every run, [T, L]; 1 without a name."""
        return self.numbers[name] if name else np.ones(self.completed.shape)

    def over_none(self, values: Array) -> Array:
        """Return values of all lanes, [..., L], over that of the lane without drafts, if any."""
        none = self.plan.none
        ratios: Array = values / (np.nan if none is None else values[..., [none]])
        return ratios

    def totals(self, *numbers: Array) -> Sequence[Array]:
        """Return the totals of each of the numbers, [T, C], over all tasks and over every resample
        of prompts, [1 + B, C]."""
        totals = totals_by_prompt(np.hstack(numbers), self.prompt)
        return np.split(totals, len(numbers), axis=1)

    def by_lane(self, *values: Array) -> Iterator[tuple[Interval, ...]]:
        """Yield for every lane what has been computed of the totals, [1 + B, L], with intervals."""
        return zip(*(percentile_intervals(each.T, self.prompts) for each in values), strict=True)


class Part(NamedTuple):
    """The tasks of one group at one temperature: of a suite, a category of a suite, or all
    suites."""

    group: str
    temperature: float
    grid: Grid


def parts(grid: Grid) -> Iterator[Part]:
    """Yield every group at every temperature: a suite, then its categories in order of appearance
    where it has several; ``ALL`` last where there are several suites."""
    plan = grid.plan
    for (name, items), temperature in product(_groups(plan), plan.temperatures):
        here = np.array(items)[grid.item] & (grid.temperature == temperature)
        yield Part(name, temperature, grid.part(here))


def _groups(plan: Plan) -> Iterator[tuple[str, list[bool]]]:
    """Yield each group with whether each item of the plan belongs to it, [I]."""
    items = items_of(plan)
    for suite in plan.suites:
        yield suite.name, [name == suite.name for name, _ in items]
        categories = dict.fromkeys(item.category for item in suite.items)
        for category in categories if len(categories) > 1 else ():
            part = [name == suite.name and item.category == category for name, item in items]
            yield f"{suite.name}/{category or 'other'}", part
    if len(plan.suites) > 1:
        yield ALL, [True] * len(items)


def items_of(plan: Plan) -> tuple[tuple[str, Item], ...]:
    """Return every item of the plan in order, with the name of its suite; ``Grid.item`` indexes
    it."""
    return tuple((suite.name, item) for suite in plan.suites for item in suite.items)


class _Cells(NamedTuple):
    """Where the results stand: rows and lanes of [T, L], in which all draws of a placebo have one
    place."""

    shape: tuple[int, int]
    at: tuple[Indices, ...]

    def sums(self, values: NDArray[Any]) -> Array:
        """Add up the values of the results, [N, …], by place, [T, L, …]."""
        sums = np.zeros((*self.shape, *values.shape[1:]))
        np.add.at(sums, self.at, values)
        return sums

    def means(self, values: Iterable[float | str | None]) -> Array:
        """Average a value of each result over those that have it; nan is stored as a string."""
        every = np.array([np.nan if value is None else float(value) for value in values])
        known = ~np.isnan(every)
        with np.errstate(invalid="ignore"):
            means: Array = self.sums(np.where(known, every, 0.0)) / self.sums(known)
        return means

    def by_depth(self, counts: Sequence[Sequence[float]]) -> Array:
        """Add up counts by draft position, [T, L, K]."""
        deepest = max(map(len, counts), default=0)
        padded = [[*each, *[0] * (deepest - len(each))] for each in counts]
        return self.sums(np.array(padded, dtype=np.float64).reshape(len(counts), deepest))


@readable()
def grid(plan: Plan, stored: Sequence[StoredResult]) -> Grid:
    """``stored``: results by task. Raises ValueError for results that this version
    cannot read."""
    rows = {number: row for row, number in enumerate(dict.fromkeys(one.task for one in stored))}
    lane_of = {number: lane for lane, each in enumerate(plan.draws) for number in each}
    places = np.array([(rows[one.task], lane_of[one.lane]) for one in stored], dtype=np.intp)
    cells = _Cells((len(rows), len(plan.draws)), tuple(places.reshape(-1, 2).T))
    draws = np.array(list(map(len, plan.draws)))
    completed = np.array([one.data["status"] == Status.COMPLETED for one in stored], dtype=np.bool_)
    run_ids = np.empty(cells.shape, dtype=object)
    main = np.full(len(rows), "", dtype=object)
    for one in reversed(stored):
        run_ids[rows[one.task], lane_of[one.lane]] = one.run_ids
        main[rows[one.task]] = next(iter(one.data["scores"]), "") or main[rows[one.task]]
    metrics = dict.fromkeys(name for one in stored for name in one.data["scores"])
    scores = {name: cells.means(one.data["scores"].get(name) for one in stored) for name in metrics}
    main_scores = np.full(cells.shape, np.nan)
    for name in metrics:
        main_scores[main == name] = scores[name][main == name]
    drafted_at, kept_at = (
        cells.by_depth([one.data[name] for one in stored]) / draws[:, None]
        for name in ("drafted_at", "kept_at")
    )
    tasks = tuple(map(plan.task, rows))
    item = np.array(list(map(plan.position, tasks)), dtype=np.intp)
    return Grid(
        plan=plan.averaged,
        item=item,
        template=_templates(plan)[item],
        repeat=np.array([task.repeat for task in tasks], dtype=np.intp),
        temperature=np.array([task.temperature for task in tasks], dtype=np.float64),
        size=np.array([task.batch for task in tasks], dtype=np.intp),
        completed=cells.sums(completed) == draws,
        failed=cells.sums(~completed) > 0,
        numbers=_numbers(stored, cells, drafted_at, kept_at) | {"right": main_scores},
        drafted_at=drafted_at,
        kept_at=kept_at,
        scores=scores,
        main=main,
        main_scores=main_scores,
        run_ids=run_ids,
        causes=tuple(cause for one in stored if one.relative and (cause := one.relative["cause"])),
    )


def _numbers(
    stored: Sequence[StoredResult], cells: _Cells, drafted_at: Array, kept_at: Array
) -> dict[str, Array]:
    """Return the numbers by name, [T, L]: those of results, then what follows from them. Kept are
    drafted tokens, verified these and the steps that drafted."""
    numbers = {
        name: cells.means(
            one.data.get(name) if name in _LATER else one.data[name] for one in stored
        )
        for name in RESULT
    } | {
        name: cells.means(None if one.relative is None else one.relative[name] for one in stored)
        for name in RELATIVE
    }
    accepted = numbers["accepted"] + numbers["relaxed"]
    kept = np.where(np.isnan(accepted), kept_at.sum(axis=2), accepted)
    draft_steps = drafted_at[:, :, :1].sum(axis=2)
    return numbers | {
        "kept": kept,
        "cut": 1 - numbers["ended"],
        "draft_steps": draft_steps,
        "verified": draft_steps + kept,
        "answer_tokens": numbers["new_tokens"] - numbers["reasoning_tokens"],
        "unanswered": 1 - numbers["answered"],
    }


def _templates(plan: Plan) -> Indices:
    """Return the number of the template by item."""
    numbers = dict[tuple[str, str | int], int]()
    keys = ((name, item.template or at) for at, (name, item) in enumerate(items_of(plan)))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
