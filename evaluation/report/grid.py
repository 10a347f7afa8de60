"""A study's results as arrays, tasks × lanes, so that they can be summed at once. Knows no store and no statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.study.plan import Plan, Task
from evaluation.suites.item import Item
from mars_core.types import Status
from storage import StoredResult

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]

RESULT = ("new_tokens", "wall_s", "steps", "drafted", "accepted", "relaxed", "tv_sum", "log_likelihood", "ended")
RELATIVE = ("same", "same_as_none", "divergence", "bleu", "chrf", "rouge_l")


@dataclass(frozen=True, slots=True)
class Grid:
    """Done tasks in their order, T of them, each with the plan's lanes, L. What was not measured is nan."""

    plan: Plan
    tasks: tuple[Task, ...]
    item: Places  # number of the task's item over all suites, [T]
    temperature: Array  # [T]
    completed: Mask  # [T, L]
    there: Mask  # a result, completed or not, [T, L]
    numbers: Mapping[str, Array]  # fields of Result and Relative by name, [T, L]
    drafted_at: Array  # steps that drafted a token at draft position i + 1, [T, L, K]
    kept_at: Array  # and kept it
    scores: Mapping[str, Array]  # by metric, [T, L]
    main: tuple[str, ...]  # each task's main metric; empty where nothing is scored
    run_ids: Mapping[tuple[int, int], tuple[str, ...]]  # one a turn, by place of the task and lane
    causes: tuple[str, ...]  # of all divergences

    def baseline(self, lane: int) -> int:
        """The lane that a lane is held against; a baseline against itself."""
        found = self.plan.baseline(lane)
        return lane if found is None else found

    def used(self, lane: int) -> Mask:
        """Tasks in which the lane, its baseline and ``none`` were all completed, [T]."""
        lanes = {lane, self.baseline(lane), lane if self.plan.none is None else self.plan.none}
        found: Mask = np.logical_and.reduce(self.completed[:, sorted(lanes)], axis=1)
        return found

    @property
    def main_scores(self) -> Array:
        """Every task by its own main metric, [T, L]."""
        found = np.full(self.completed.shape, np.nan)
        for name, scores in self.scores.items():
            mine = np.array([main == name for main in self.main])
            found[mine] = scores[mine]
        return found


def grid(plan: Plan, stored: Sequence[StoredResult]) -> Grid:
    """``stored``: results of done tasks, by task. Raises ValueError for results that this version cannot read."""
    try:
        return _grid(plan, stored)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"The study was saved by another version of this program; {error} does not fit.") from None


def items_of(plan: Plan) -> tuple[tuple[str, Item], ...]:
    """Every item of the plan in order, with the name of its suite: what ``Grid.item`` counts."""
    return tuple((suite.name, item) for suite in plan.suites for item in suite.items)


def _grid(plan: Plan, stored: Sequence[StoredResult]) -> Grid:
    numbers = {number: place for place, number in enumerate(dict.fromkeys(row.task for row in stored))}
    tasks = tuple(map(plan.task, numbers))
    shape = (len(tasks), len(plan.lanes))
    at = np.array([(numbers[row.task], row.lane) for row in stored], dtype=np.intp).reshape(-1, 2)
    return Grid(
        plan=plan,
        tasks=tasks,
        item=np.array([number % plan.items for number in numbers], dtype=np.intp),
        temperature=np.array([task.temperature for task in tasks], dtype=np.float64),
        completed=_placed([row.data["status"] == Status.COMPLETED for row in stored], at, shape, 0) == 1,
        there=_placed([True for _ in stored], at, shape, 0) == 1,
        numbers=_numbers(stored, at, shape),
        drafted_at=_by_depth([row.data["drafted_at"] for row in stored], at, shape),
        kept_at=_by_depth([row.data["kept_at"] for row in stored], at, shape),
        scores=_scores(stored, at, shape),
        main=_main(stored, numbers),
        run_ids={(numbers[row.task], row.lane): row.run_ids for row in stored},
        causes=tuple(cause for row in stored if row.relative is not None and (cause := row.relative["cause"])),
    )


def _placed(values: Sequence[float | str | None], at: Places, shape: tuple[int, int], empty: float = np.nan) -> Array:
    """Values of single results in their places, [T, L]; a stored nan is a word."""
    found = np.full(shape, empty)
    found[at[:, 0], at[:, 1]] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return found


def _numbers(stored: Sequence[StoredResult], at: Places, shape: tuple[int, int]) -> dict[str, Array]:
    beside = [place for place, row in enumerate(stored) if row.relative is not None]
    relatives = [row.relative for row in stored if row.relative is not None]
    return {name: _placed([row.data[name] for row in stored], at, shape) for name in RESULT} | {
        name: _placed([relative[name] for relative in relatives], at[beside], shape) for name in RELATIVE
    }


def _by_depth(values: Sequence[Sequence[int]], at: Places, shape: tuple[int, int]) -> Array:
    deepest = max(map(len, values), default=0)
    found = np.zeros((*shape, deepest))
    rows = [[*counts, *[0] * (deepest - len(counts))] for counts in values]
    found[at[:, 0], at[:, 1]] = np.array(rows, dtype=np.float64).reshape(len(rows), deepest)
    return found


def _scores(stored: Sequence[StoredResult], at: Places, shape: tuple[int, int]) -> dict[str, Array]:
    metrics = dict.fromkeys(name for row in stored for name in row.data["scores"])
    return {name: _placed([row.data["scores"].get(name) for row in stored], at, shape) for name in metrics}


def _main(stored: Sequence[StoredResult], numbers: Mapping[int, int]) -> tuple[str, ...]:
    found = [""] * len(numbers)
    for row in stored:
        found[numbers[row.task]] = found[numbers[row.task]] or next(iter(row.data["scores"]), "")
    return tuple(found)
