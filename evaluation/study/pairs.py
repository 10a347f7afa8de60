"""The results of a sweep: paired runs of the rule at each setting and of strict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evaluation.scoring.names import ANSWER
from evaluation.statistics import over
from evaluation.study.plan import Plan, Task, read_plan
from evaluation.study.result import read_relative, read_result
from evaluation.study.sweep import Cell, cell_of, pairs_planned
from mars_core.types import Status
from storage import RunStore, StoredResult


@dataclass(frozen=True, slots=True)
class Paired:
    """The rule at one setting on one prompt and seed, paired with strict. Counts are sums, so that
    they can be pooled."""

    comparison: str  # id in the store
    runs: tuple[str, ...]  # ids of strict's run and the rule's
    case: int
    repeat: int
    temperature: float
    k: int | None
    value: float | None
    strict_tokens_per_s: float
    tokens_per_s: float
    strict_tokens: int
    tokens: int
    strict_steps: int
    steps: int
    relaxed: int
    tv_sum: float
    divergence: int | None = None  # first output position at which the texts differ
    cause: str = ""  # of the divergence
    strict_right: bool | None = None  # None: the prompt has no reference
    right: bool | None = None

    @property
    def cell(self) -> Cell:
        return Cell(self.temperature, self.k, self.value)

    def seed(self, plan: Plan) -> int:
        return plan.seed_of(Task(0, self.case, self.repeat, self.temperature))

    @property
    def speedup(self) -> float:
        """Tokens per second, the rule's over strict's."""
        return over(self.tokens_per_s, self.strict_tokens_per_s)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep, possibly incomplete. ``status`` is cancelled until it is completed; ``error``: why
    it failed."""

    id: str
    plan: Plan
    pairs: tuple[Paired, ...] = ()
    status: Status = Status.CANCELLED
    error: str = ""

    @property
    def total(self) -> int:
        """Number of planned pairs."""
        return pairs_planned(self.plan)


def pairs_of(plan: Plan, results: Iterable[StoredResult]) -> tuple[Paired, ...]:
    """All pairs with two completed runs, by task, then setting. Raises ValueError for results of
    another version."""
    by_place = {(stored.task, stored.lane): stored for stored in results}
    found = (_paired(plan, by_place, rule) for _, rule in sorted(by_place.items()))
    return tuple(pair for pair in found if pair is not None)


def _paired(
    plan: Plan, results: Mapping[tuple[int, int], StoredResult], rule: StoredResult
) -> Paired | None:
    baseline = plan.baseline(rule.lane)
    strict = None if baseline is None else results.get((rule.task, baseline))
    if strict is None or rule.relative is None:
        return None
    task, relative = plan.task(rule.task), read_relative(rule.relative)
    own, reference = read_result(rule.data), read_result(strict.data)
    cell = cell_of(plan, task.temperature, plan.lanes[rule.lane])
    right, strict_right = (
        None if ANSWER not in each.scores else each.scores[ANSWER] == 1 for each in (own, reference)
    )
    return Paired(
        rule.comparison_ids[0],
        (*strict.run_ids, *rule.run_ids),
        task.item,
        task.repeat,
        *cell,
        strict_tokens_per_s=over(reference.new_tokens, reference.wall_s),
        tokens_per_s=over(own.new_tokens, own.wall_s),
        strict_tokens=int(reference.new_tokens),
        tokens=int(own.new_tokens),
        strict_steps=int(reference.steps),
        steps=int(own.steps),
        relaxed=int(own.relaxed),
        tv_sum=own.tv_sum,
        divergence=relative.divergence,
        cause=relative.cause,
        strict_right=strict_right,
        right=right,
    )


def load_sweep(store: RunStore, sweep_id: str) -> Sweep:
    """Raises StorageError where there is none, and ValueError where another version of this program
    saved it."""
    study = store.study(sweep_id)
    plan = read_plan(study.plan)
    if plan.varied is None:
        raise ValueError("This is a study, not a sweep; it is shown in the tab Quality.")
    results = store.results(sweep_id, unfinished=True)
    failed = next(
        (stored for stored in results if stored.data.get("status") == Status.FAILED), None
    )
    ended = Status.COMPLETED if study.done == study.tasks else Status.CANCELLED
    status, error = (
        (ended, "") if failed is None else (Status.FAILED, str(failed.data.get("error", "")))
    )
    return Sweep(sweep_id, plan, pairs_of(plan, results), status, error)
