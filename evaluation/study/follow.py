"""What follows the relaxed tokens of a study: for each, strict continues from just before and from
just after it; and what would follow tokens that strict rejected, each relaxed alone. What is saved is
not decoded again.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from evaluation.plan.lane import BASELINE
from evaluation.plan.plan import Plan, read_plan
from evaluation.scoring.extraction import answers
from evaluation.scoring.metrics import METRICS, scores
from evaluation.study.result import NAN, answer, read_result
from mars_core.counterfactual import (
    Counterfactual,
    compared,
    continued,
    ending,
    rejected_tokens,
    relaxed_alone,
    relaxed_positions,
    starts,
)
from mars_core.types import DraftMode, RunConfig, Status, StopReason, Trace
from storage import RunStore, StoredResult
from storage.scope import batches

if TYPE_CHECKING:
    from mars_core.session import Session

RESULTS_A_READ = 20
OWN = -1  # in the place of a start: strict's continuation is its own text


class FollowProgress(NamedTuple):
    """``runs``: with relaxed tokens; of these ``done``. ``tokens``: followed now; ``failed``: whose
    continuations failed."""

    runs: int
    done: int = 0
    tokens: int = 0
    failed: int = 0


class RelaxedRun(NamedTuple):
    """A completed run of a task, with all turns up to it, and the positions whose tokens have been
    followed."""

    id: str
    task: int
    turns: tuple[Trace, ...]
    saved: frozenset[int]

    @property
    def trace(self) -> Trace:
        return self.turns[-1]


class _Token(NamedTuple):
    """A token that is followed. ``base``: the text up to it; where strict continues that with the
    target's token, and where after the token itself."""

    base: Trace
    strict: int
    relaxed: int


@dataclass(slots=True)
class _Open:
    """A run whose continuations are being decoded. ``tokens``: by position; ``continuations``: by
    start."""

    run: RelaxedRun
    tokens: Mapping[int, _Token]
    continuations: dict[int, Trace] = field(default_factory=dict)

    @property
    def missing(self) -> dict[int, Trace]:
        """Return the starts of the continuations that are not there, with what they continue."""
        starts = {start: base for base, *both in self.tokens.values() for start in both}
        return {start: starts[start] for start in sorted(starts.keys() - self.continuations)}


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

    def opened(run: RelaxedRun) -> _Open:
        wanted = _sampled(run, relaxed_positions(run.trace), sample)
        both = starts(run.trace, set(wanted) - run.saved)
        return _Open(run, {each: _Token(run.trace, *both[each]) for each in both})

    return _follow(store, plan, session, slots, relaxed, opened)


def intervene(
    store: RunStore, study_id: str, session: Session, slots: int
) -> Iterator[FollowProgress]:
    """Relaxes rejected tokens of strict's texts, each alone: as many of each text as the plan says,
    at random. Protected tokens and sampled drafts, with which strict draws its text otherwise than
    the continuation, are left out. As ``follow_tokens`` else."""
    from mars_core.engine.build import protected  # imported here because it loads transformers

    plan, eos = followed_plan(store, study_id), session.pair.eos_ids
    ids = protected(session.pair, plan.processors.protect)
    strict = [each for each in store.results(study_id) if intervened(plan, each)]

    def opened(run: RelaxedRun) -> _Open:
        rejected = {
            position: token
            for position, token in rejected_tokens(run.trace).items()
            if token.id not in ids
        }
        tokens = {
            each: _Token(relaxed_alone(run.trace, rejected[each], eos), OWN, each + 1)
            for each in _sampled(run, rejected, plan.interventions)
            if each not in run.saved
        }
        return _Open(run, tokens, {OWN: run.trace})

    return _follow(store, plan, session, slots, strict, opened)


def intervened(plan: Plan, result: StoredResult) -> bool:
    """Return whether rejected tokens of a result's runs are relaxed alone."""
    lane, task = plan.lanes[result.lane], plan.task(result.task)
    sampled = lane.drafter.mode is DraftMode.SAMPLED and task.temperature > 0
    return lane.rule.name == BASELINE and not sampled and plan.writes_anew(result.task)


def _follow(
    store: RunStore,
    plan: Plan,
    session: Session,
    slots: int,
    results: Sequence[StoredResult],
    opened: Callable[[RelaxedRun], _Open],
) -> Iterator[FollowProgress]:
    """Follow tokens of the runs of these results, ``opened`` one after the other."""
    progress = FollowProgress(sum(len(each.run_ids) for each in results))
    waiting, number, ready = dict[int, tuple[_Open, int]](), count(), deque[_Open]()

    def configs() -> Iterator[RunConfig]:
        nonlocal progress
        for one in map(opened, _runs(store, results)):
            if not one.tokens:
                progress = progress._replace(done=progress.done + 1)
                continue
            decoded = []
            for start, base in one.missing.items():
                if config := continued(base, start):
                    decoded.append((start, config))
                else:
                    one.continuations[start] = base
            if not decoded:
                ready.append(one)
            for start, config in decoded:
                waiting[next(number)] = one, start
                yield config

    def saved() -> Iterator[FollowProgress]:
        nonlocal progress
        while ready:
            one = ready.popleft()
            followed = list(_followed(plan, one))
            if followed:
                store.save_counterfactuals(one.run.id, followed)
            progress = FollowProgress(
                progress.runs,
                progress.done + 1,
                progress.tokens + len(followed),
                progress.failed + len(one.tokens) - len(followed),
            )
            yield progress

    for at, continuation in session.together(configs(), slots):
        one, start = waiting.pop(at)
        one.continuations[start] = continuation.trace()
        if not one.missing:
            ready.append(one)
        yield from saved()
    yield from saved()
    yield progress


def _runs(store: RunStore, results: Sequence[StoredResult]) -> Iterator[RelaxedRun]:
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
                known = frozenset(token.position for token in saved.get(run_id, ()))
                yield RelaxedRun(run_id, result.task, tuple(turns), known)


def _sampled(run: RelaxedRun, positions: Collection[int], sample: int | None) -> list[int]:
    """Sample the tokens of a completed run. A larger sample contains a smaller one."""
    if run.trace.status is not Status.COMPLETED:
        return []
    return sorted(random.Random(run.id).sample(sorted(positions), len(positions))[:sample])


def _followed(plan: Plan, done: _Open) -> Iterator[Counterfactual]:
    for position, (base, *both) in done.tokens.items():
        strict, relaxed = (done.continuations[start] for start in both)
        rejected, accepted = ending(base, strict, position), ending(base, relaxed, position)
        if rejected and accepted:
            token = compared(base, position, rejected, accepted)
            yield _graded(plan, done.run, token, (strict, relaxed))


def _graded(
    plan: Plan, run: RelaxedRun, token: Counterfactual, continuations: Sequence[Trace]
) -> Counterfactual:
    """Return it with the score of either text, and whether the two answers differ, by binary scores
    or by what is extracted from texts that were not cut. Turns before the last one of an item are
    not graded."""
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
