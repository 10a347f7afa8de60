"""Which setting is supported, from the results of a study so far: its candidates are tested in
their order, each at the full level, up to the first that is not supported. So the probability that
any supported one scores less than the margin is at most the level: the first such candidate in the
order must be supported wrongly for it. Pure functions of stored results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluation.advise.tuning import shuffled
from evaluation.betting import (
    above,
    below,
    difference_interval,
    least_prompts,
    log_wealth,
    p_value,
    ratio_bound,
)
from evaluation.plan.lane import BASELINE
from evaluation.plan.plan import Plan
from evaluation.plan.purpose import Advice, Prediction
from evaluation.statistics import CONFIDENCE, Array, Interval, mean_interval, over
from evaluation.study.result import NAN
from mars_core.types import Status
from storage import StoredResult


class CandidateOutcome(StrEnum):
    """The result of the test of one candidate."""

    SUPPORTED = "supported"
    BELOW = "below the margin"
    NOT_DECIDED = "not decided"
    RUNNING = "running"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True)
class Candidate:
    """The hypothesis that this lane's score is less than the margin of strict's, and its test.
    ``done``: prompts in the order of the test, with those that strict did not complete; ``bound``:
    lower bound of the recovery. Scores are means over the seeds of a prompt."""

    lane: int
    name: str
    prediction: Prediction
    outcome: CandidateOutcome
    done: int = 0
    prompts: int = 0
    lost: float = 0.0
    gained: float = 0.0
    recovery: float = NAN
    bound: float = NAN
    p: float = 1.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """``needed``: prompts that strict answers right and the candidate too, without which nothing is
    supported."""

    margin: float
    alpha: float
    prompts: int
    needed: int
    tuning: int
    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate | None:
        """The last one that is supported; None: strict."""
        supported = CandidateOutcome.SUPPORTED
        return next((each for each in self.candidates[::-1] if each.outcome is supported), None)

    @property
    def running(self) -> Candidate | None:
        """The one that needs more runs; None where all is decided."""
        running = CandidateOutcome.RUNNING
        return next((each for each in self.candidates if each.outcome is running), None)


class LaneDifference(NamedTuple):
    """The score of ``lane`` minus that of ``other``, over the prompts that both completed.
    ``difference``: with an interval by bootstrap, for one look; ``anytime``: for any number."""

    lane: int
    other: int
    prompts: int
    difference: Interval
    anytime: Interval


class PromptScores(NamedTuple):
    """``complete``: whether a lane has all seeds of a prompt; ``mean``: over them, nan without a
    score; both [items in random order, lanes]."""

    complete: NDArray[np.bool_]
    mean: Array


def compared(plan: Plan) -> list[int]:
    """Return the lanes that are neither strict nor without drafts."""
    return [
        number
        for number, lane in enumerate(plan.lanes)
        if lane.rule.name != BASELINE and number != plan.none
    ]


def prompt_scores(plan: Plan, stored: Iterable[StoredResult]) -> PromptScores:
    """Return the main score of every prompt. A run that failed scores 0, one of strict nothing."""
    count, total = (np.zeros((plan.items, len(plan.lanes))) for _ in range(2))
    for one in stored:
        at = (one.task % plan.items, one.lane)
        count[at] += 1
        failed = 0.0 if plan.lanes[one.lane].rule.name != BASELINE else NAN
        completed = one.data["status"] == Status.COMPLETED
        total[at] += next(iter(one.data["scores"].values()), NAN) if completed else failed
    order = shuffled(plan)
    return PromptScores((count == plan.repeats)[order], (total / plan.repeats)[order])


def certify(plan: Plan, stored: Iterable[StoredResult], step: int = 1) -> Certificate:
    """Certify a plan with ``advice``. ``step``: only so many prompts at a time, and the last ones,
    count, whatever else is stored."""
    advice, scores = plan.advice, prompt_scores(plan, stored)
    assert advice is not None
    tested: list[Candidate] = []
    for lane, prediction in zip(compared(plan), advice.predictions, strict=True):
        name = plan.lanes[lane].title
        if tested and tested[-1].outcome is not CandidateOutcome.SUPPORTED:
            tested.append(Candidate(lane, name, prediction, CandidateOutcome.NOT_TESTED))
        else:
            tested.append(_tested(plan, advice, scores, lane, prediction, step))
    needed = least_prompts(plan.margin, advice.alpha)
    return Certificate(plan.margin, advice.alpha, plan.items, needed, advice.tuning, tuple(tested))


def _tested(
    plan: Plan,
    advice: Advice,
    scores: PromptScores,
    lane: int,
    prediction: Prediction,
    step: int,
) -> Candidate:
    baseline = plan.baseline(lane)
    assert baseline is not None
    complete = scores.complete[:, lane] & scores.complete[:, baseline]
    done = plan.items if complete.all() else int(np.argmin(complete)) // step * step
    pairs = scores.mean[:done, [lane, baseline]]
    rule, strict = pairs[np.isfinite(pairs).all(axis=1)].T
    return Candidate(
        lane,
        plan.lanes[lane].title,
        prediction,
        decided(rule, strict, plan.items - done, plan.margin, advice.alpha),
        done,
        len(rule),
        float((strict - rule).clip(0).sum()),
        float((rule - strict).clip(0).sum()),
        over(float(rule.sum()), float(strict.sum())),
        ratio_bound(rule, strict, advice.alpha) if len(rule) else NAN,
        p_value(above(rule, strict, plan.margin)),
    )


def decided(
    rule: Array, baseline: Array, left: int, margin: float, alpha: float
) -> CandidateOutcome:
    """Supported at any prompt so far; given up where the score is below the margin, with the same
    level, or where ``left`` more prompts without a lost answer would not be enough."""
    enough = -math.log(alpha)
    without_loss = np.full(left, 1 / margin - 1)
    wealth = log_wealth(np.concatenate([above(rule, baseline, margin), without_loss]))
    if wealth[: len(rule)].max(initial=0.0) >= enough:
        return CandidateOutcome.SUPPORTED
    if p_value(below(rule, baseline, margin)) <= alpha:
        return CandidateOutcome.BELOW
    most = wealth.max(initial=0.0)
    return CandidateOutcome.RUNNING if most >= enough else CandidateOutcome.NOT_DECIDED


def differences(plan: Plan, stored: Sequence[StoredResult]) -> tuple[LaneDifference, ...]:
    """Return those of every two rules of the plan, over the prompts that both have completed."""
    scores = prompt_scores(plan, stored)
    every = []
    for lane, other in combinations(compared(plan), 2):
        both = scores.complete[:, lane] & scores.complete[:, other]
        change = scores.mean[both, lane] - scores.mean[both, other]
        change = change[np.isfinite(change)]
        anytime = difference_interval(change, 1 - CONFIDENCE)
        every.append(
            LaneDifference(
                lane, other, len(change), mean_interval(change, np.arange(len(change))), anytime
            )
        )
    return tuple(every)
