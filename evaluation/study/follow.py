"""What follows the relaxed tokens of a study: for each, strict continues from just before and from
just after it. What is saved is not decoded again; a run is saved when all of its tokens are known.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from evaluation.scoring.extraction import answers
from evaluation.scoring.metrics import METRICS, scores
from evaluation.study.plan import Plan, read_plan
from evaluation.study.result import NAN, answer, read_result
from mars_core.counterfactual import (
    Counterfactual,
    compared,
    continued,
    ending,
    relaxed_positions,
    starts,
)
from mars_core.types import RunConfig, Status, StopReason, Trace
from storage import RunStore, StoredResult
from storage.scope import batches

if TYPE_CHECKING:
    from mars_core.session import Session

RESULTS_A_READ = 20


class FollowProgress(NamedTuple):
    """``runs``: with relaxed tokens; of these ``done``. ``tokens``: followed now; ``failed``: whose
    continuations failed."""

    runs: int
    done: int = 0
    tokens: int = 0
    failed: int = 0


class RelaxedRun(NamedTuple):
    """A completed run of a task, with all turns up to it."""

    id: str
    task: int
    turns: tuple[Trace, ...]

    @property
    def trace(self) -> Trace:
        return self.turns[-1]


@dataclass(slots=True)
class _Open:
    """A run whose continuations are being decoded, by their start."""

    run: RelaxedRun
    of_token: dict[int, tuple[int, int]]
    continuations: dict[int, Trace] = field(default_factory=dict)

    @property
    def starts(self) -> list[int]:
        """Where strict continues."""
        return sorted({start for both in self.of_token.values() for start in both})

    @property
    def complete(self) -> bool:
        return len(self.continuations) == len(self.starts)


def followed_plan(store: RunStore, study_id: str) -> Plan:
    """Raises ValueError for a study whose runs cannot be continued here."""
    plan = read_plan(store.study(study_id).plan)
    if plan.served:
        raise ValueError("The study ran on a server; only runs of this program can be followed.")
    return plan


def follow_tokens(
    store: RunStore, study_id: str, session: Session, slots: int, sample: int | None = None
) -> Iterator[FollowProgress]:
    """Follows the relaxed tokens of all completed runs that are stored, or of each run
    ``sample`` random ones, the same each time; ``slots`` continuations at a time. Raises
    StorageError, and ValueError as ``followed_plan``, or for runs of another sampler, whose noise
    would be another."""
    plan = followed_plan(store, study_id)
    relaxed = [each for each in store.results(study_id) if read_result(each.data).relaxed > 0]
    progress = FollowProgress(sum(len(each.run_ids) for each in relaxed))
    opened: list[_Open] = []
    keys: list[tuple[_Open, int]] = []

    def configs() -> Iterator[RunConfig]:
        nonlocal progress
        for run, positions in _runs(store, relaxed, sample):
            if not positions:
                progress = progress._replace(done=progress.done + 1)
                continue
            one = _Open(run, starts(run.trace, positions))
            opened.append(one)
            for start in one.starts:
                if config := continued(run.trace, start):
                    keys.append((one, start))
                    yield config
                else:
                    one.continuations[start] = run.trace

    for number, continuation in session.together(configs(), slots):
        of_run, start = keys[number]
        of_run.continuations[start] = continuation.trace()
        if of_run.complete:
            opened.remove(of_run)
            followed = list(_followed(plan, of_run))
            if followed:
                store.save_counterfactuals(of_run.run.id, followed)
            progress = FollowProgress(
                progress.runs,
                progress.done + 1,
                progress.tokens + len(followed),
                progress.failed + len(of_run.of_token) - len(followed),
            )
            yield progress
    yield progress


def _runs(
    store: RunStore, results: Sequence[StoredResult], sample: int | None
) -> Iterator[tuple[RelaxedRun, list[int]]]:
    """Every run with the positions that are to be followed and are not saved."""
    for some in batches(results, RESULTS_A_READ):
        ids = [run_id for result in some for run_id in result.run_ids]
        traces, saved = store.traces(ids), store.counterfactuals(ids)
        for result in some:
            turns: list[Trace] = []
            for run_id in filter(traces.__contains__, result.run_ids):
                turns.append(trace := traces[run_id])
                if trace.config.draws_otherwise:
                    version = trace.config.environment.get("app", "?")
                    raise ValueError(
                        f"The study has runs of version {version} with another sampler; only that "
                        "version can follow them."
                    )
                known = {token.position for token in saved.get(run_id, ())}
                wanted = _sampled(trace, random.Random(run_id), sample)
                left = [position for position in wanted if position not in known]
                yield RelaxedRun(run_id, result.task, tuple(turns)), left


def _sampled(run: Trace, chance: random.Random, sample: int | None) -> list[int]:
    """A larger sample contains a smaller one."""
    positions = relaxed_positions(run) if run.status is Status.COMPLETED else []
    return sorted(chance.sample(positions, len(positions))[:sample])


def _followed(plan: Plan, done: _Open) -> Iterator[Counterfactual]:
    run = done.run.trace
    for position, both in done.of_token.items():
        strict, relaxed = (done.continuations[start] for start in both)
        rejected, accepted = ending(run, strict, position), ending(run, relaxed, position)
        if rejected and accepted:
            token = compared(run, position, rejected, accepted)
            yield _graded(plan, done.run, token, (strict, relaxed))


def _graded(
    plan: Plan, run: RelaxedRun, token: Counterfactual, continuations: Sequence[Trace]
) -> Counterfactual:
    """With the score of either text, and whether the two answers differ, by binary scores or by what
    is extracted from texts that were not cut. Turns before the last one of an item are not graded."""
    task = plan.task(run.task)
    item = plan.item(task)
    if len(run.turns) < len(item.turns):
        return token
    before = [answer(turn) for turn in run.turns[:-1]]
    texts = [answer(each) for each in continuations]
    graded = [
        scores(plan.suites[task.suite], item, [*before, text], execute_code=plan.execute_code)
        for text in texts
    ]
    strict, relaxed = (next(iter(each.values()), NAN) for each in graded)
    metric = next(iter(graded[0]), "")
    differ = [strict != relaxed] if metric and METRICS[metric].binary else []
    cut = StopReason.LENGTH in (each.stop_reason for each in continuations)
    if not cut and (both := answers(item.turns[-1], *texts)):
        differ.append(both.left != both.right)
    changed = any(differ) if differ else None
    return replace(token, strict_score=strict, relaxed_score=relaxed, changed=changed)
