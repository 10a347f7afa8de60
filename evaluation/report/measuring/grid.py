"""A study's results as arrays, tasks × lanes, and the groups of items that are measured
together."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluation.item import Item
from evaluation.plan.plan import Plan, Task
from evaluation.plan.stored import readable
from evaluation.report.values import ALL
from evaluation.statistics import Array, Indices, totals_by_prompt
from evaluation.study.result import NAN, LaneResult, Relative
from mars_core.types import Status
from storage import StoredResult

Mask = NDArray[np.bool_]

_NUMBERS = ("float", "int", "bool", "int | None", "bool | None")
RESULT, RELATIVE = (
    tuple(each.name for each in fields(kind) if each.type in _NUMBERS)
    for kind in (LaneResult, Relative)
)
# which older studies lack: what may be unknown
_LATER = {"batch", *(each.name for each in fields(LaneResult) if each.default is NAN)}
# Numbers of a run that follow from others: drafted tokens that were kept, whether the token limit
# cut it, steps that drafted, these with the kept tokens, tokens after the reasoning, the main
# score, and whether there is no answer.
DERIVED = ("kept", "cut", "draft_steps", "verified", "answer_tokens", "right", "unanswered")


class Group(NamedTuple):
    """A suite, a category of a suite, or all suites. ``items``: whether each item of the plan
    belongs to it, [I]."""

    name: str
    items: Mask


def groups(plan: Plan) -> tuple[Group, ...]:
    """Return a suite, then its categories in order of appearance where it has several; ``ALL`` last
    where there are several suites."""
    items = items_of(plan)
    all_groups: list[Group] = []
    for suite in plan.suites:
        all_groups.append(Group(suite.name, np.array([name == suite.name for name, _ in items])))
        categories = dict.fromkeys(item.category for item in suite.items)
        for category in categories if len(categories) > 1 else ():
            part = [name == suite.name and item.category == category for name, item in items]
            all_groups.append(Group(f"{suite.name}/{category or 'other'}", np.array(part)))
    return (
        *all_groups,
        *([Group(ALL, np.ones(len(items), dtype=np.bool_))] if len(plan.suites) > 1 else []),
    )


def items_of(plan: Plan) -> tuple[tuple[str, Item], ...]:
    """Return every item of the plan in order, with the name of its suite; ``Grid.item`` indexes
    it."""
    return tuple((suite.name, item) for suite in plan.suites for item in suite.items)


class Grid(NamedTuple):
    """The T tasks that were begun in order, each with the L lanes of the averaged plan: the draws of
    a placebo are one lane, with the means of what all of them measured, once all are completed.
    Values that were not measured are nan."""

    plan: Plan
    tasks: tuple[Task, ...]
    item: Indices  # number of the task's item over all suites, [T]
    template: Indices  # number of the item's template; an item without one has its own, [T]
    temperature: Array  # [T]
    completed: Mask  # [T, L]
    failed: Mask  # a result that is not completed, [T, L]
    numbers: Mapping[str, Array]  # by field of LaneResult and Relative, or one of DERIVED, [T, L]
    drafted_at: Array  # steps that drafted a token at draft position i + 1, [T, L, K]
    kept_at: Array  # and accepted it, strictly or relaxed
    scores: Mapping[str, Array]  # by metric, [T, L]
    main: tuple[str, ...]  # each task's main metric; empty where nothing is scored
    main_scores: Array  # every task by its main metric, [T, L]
    run_ids: Mapping[tuple[int, int], tuple[str, ...]]  # one per turn, by row and lane
    causes: tuple[str, ...]  # of all divergences

    def baseline(self, lane: int) -> int:
        """Return the baseline of a lane; a baseline's is itself."""
        strict = self.plan.baseline(lane)
        return lane if strict is None else strict

    def in_compared(self, marks: Mask) -> Mask:
        """Return where a mark, [R, L], is in the lane, its baseline and ``none``."""
        baselines = [self.baseline(lane) for lane in range(len(self.plan.lanes))]
        both: Mask = marks & marks[:, baselines]
        return both if self.plan.none is None else both & marks[:, [self.plan.none]]


def pooled(grid: Grid, rows: Indices, *numbers: Array) -> tuple[int, Sequence[Array]]:
    """Return how many prompts these rows have, and the totals of each of the numbers, [R, L], by
    lane over all rows and over every resample of prompts, [1 + B, L]."""
    prompts, prompt = np.unique(grid.item[rows], return_inverse=True)
    totals = totals_by_prompt(np.hstack(numbers), prompt)
    return len(prompts), np.split(totals, len(numbers), axis=1)


class _Cells(NamedTuple):
    """Where single results stand: rows and lanes of [T, all lanes], in which every draw of a placebo
    has its own."""

    shape: tuple[int, int]
    at: tuple[Indices, ...]
    draws: Sequence[Sequence[int]]  # of each lane of the averaged plan

    def array(self, values: Iterable[float | str | None]) -> Array:
        """Return the array of a value a result; nan is stored as a string."""
        array = np.full(self.shape, np.nan)
        array[self.at] = [np.nan if value is None else float(value) for value in values]
        return array

    def by_depth(self, counts: Sequence[Sequence[float]]) -> Array:
        """Return the array of counts by draft position, [T, all lanes, K]."""
        array = np.zeros((*self.shape, max(map(len, counts), default=0)))
        for row, lane, each in zip(*self.at, counts, strict=True):
            array[row, lane, : len(each)] = each
        return array

    def averaged(self, values: Array | Mask) -> Array:
        """Over the draws of each placebo, [T, all lanes, …] → [T, L, …]."""
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of nothing
            means = [np.nanmean(values[:, list(each)], axis=1) for each in self.draws]
        return np.stack(means, axis=1)


@readable()
def grid(plan: Plan, stored: Sequence[StoredResult]) -> Grid:
    """``stored``: results by task. Raises ValueError for results that this version
    cannot read."""
    rows = {number: row for row, number in enumerate(dict.fromkeys(one.task for one in stored))}
    places = np.array([(rows[one.task], one.lane) for one in stored], dtype=np.intp)
    cells = _Cells((len(rows), len(plan.lanes)), tuple(places.reshape(-1, 2).T), plan.draws)
    drafted_at, kept_at = (
        cells.by_depth([one.data[name] for one in stored]) for name in ("drafted_at", "kept_at")
    )
    status = cells.array(one.data["status"] == Status.COMPLETED for one in stored)
    metrics = dict.fromkeys(name for one in stored for name in one.data["scores"])
    scores = {name: cells.array(one.data["scores"].get(name) for one in stored) for name in metrics}
    main = _main_metrics(stored, rows)
    unscored = np.full(cells.shape, np.nan)
    by_main = [scores.get(name, unscored)[row] for row, name in enumerate(main)]
    main_scores = np.array(by_main).reshape(cells.shape)
    numbers = _numbers(stored, cells, drafted_at, kept_at, main_scores)
    tasks = tuple(map(plan.task, rows))
    item = np.array(list(map(plan.position, tasks)), dtype=np.intp)
    lane_of = {number: lane for lane, each in enumerate(plan.draws) for number in each}
    return Grid(
        plan=plan.averaged,
        tasks=tasks,
        item=item,
        template=_templates(plan)[item],
        temperature=np.array([task.temperature for task in tasks], dtype=np.float64),
        completed=cells.averaged(status == 1) == 1,
        failed=cells.averaged(status == 0) > 0,
        numbers={name: cells.averaged(values) for name, values in numbers.items()},
        drafted_at=cells.averaged(drafted_at),
        kept_at=cells.averaged(kept_at),
        scores={name: cells.averaged(values) for name, values in scores.items()},
        main=main,
        main_scores=cells.averaged(main_scores),
        run_ids={(rows[one.task], lane_of[one.lane]): one.run_ids for one in reversed(stored)},
        causes=tuple(cause for one in stored if one.relative and (cause := one.relative["cause"])),
    )


def _numbers(
    stored: Sequence[StoredResult],
    cells: _Cells,
    drafted_at: Array,
    kept_at: Array,
    main_scores: Array,
) -> dict[str, Array]:
    """Return the numbers by name, [T, all lanes]."""
    numbers = {
        name: cells.array(
            one.data.get(name) if name in _LATER else one.data[name] for one in stored
        )
        for name in RESULT
    } | {
        name: cells.array(None if one.relative is None else one.relative[name] for one in stored)
        for name in RELATIVE
    }
    accepted = numbers["accepted"] + numbers["relaxed"]
    kept = np.where(np.isnan(accepted), kept_at.sum(axis=2), accepted)
    draft_steps = drafted_at[:, :, :1].sum(axis=2)
    derived = (
        *(kept, 1 - numbers["ended"], draft_steps, draft_steps + kept),
        numbers["new_tokens"] - numbers["reasoning_tokens"],
        *(main_scores, 1 - numbers["answered"]),
    )
    return numbers | dict(zip(DERIVED, derived, strict=True))


def _templates(plan: Plan) -> Indices:
    """Return the number of the template by item."""
    numbers = dict[tuple[str, str | int], int]()
    keys = ((name, item.template or at) for at, (name, item) in enumerate(items_of(plan)))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


def _main_metrics(stored: Sequence[StoredResult], rows: Mapping[int, int]) -> tuple[str, ...]:
    """Return the first metric of every task."""
    first = ((rows[one.task], next(iter(one.data["scores"]), "")) for one in reversed(stored))
    main = {row: metric for row, metric in first if metric}
    return tuple(main.get(row, "") for row in range(len(rows)))
