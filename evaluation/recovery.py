"""Recovery: the ratio of a rule's score to its baseline's, its score interval, and the verdict on
the user's margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from evaluation.statistics import (
    CONFIDENCE,
    Array,
    Indices,
    Interval,
    Z,
    bisected,
    holm,
    over,
)

POWER = 0.8
LEAST_PROMPTS = 30  # of a verdict: of fewer intervals are too narrow, and rare losses are missed
ALPHA = 1 - CONFIDENCE
ROUNDS = 44  # of bisection: to 2**-44 on the scale ratio / (1 + ratio)


class RecoveryOutcome(StrEnum):
    """The result of the test of recovery against the margin."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    TOO_FEW = "too few prompts"


class PlaceboOutcome(StrEnum):
    """Whether a rule scores more than random relaxation."""

    WORSE = "worse than random"
    UNPROVEN = "not shown to be better than random"
    TOO_FEW = "not decided"  # fewer than LEAST_PROMPTS
    EQUIVALENT = "equivalent to random"
    BETTER = "better than random"


@dataclass(frozen=True, slots=True)
class PlaceboTest:
    """A rule against random relaxation. ``ratio``: random's score over the rule's, which is not
    corrected for other comparisons; the p values are after Holm's correction, nan below
    ``LEAST_PROMPTS``, which makes no comparison."""

    ratio: Interval
    prompts: int
    p_differ: float = math.nan  # two-sided, of the hypothesis that the ratio is 1
    p_region: float = math.nan  # and that it is outside the region of equivalence

    @property
    def outcome(self) -> PlaceboOutcome:
        if math.isnan(self.p_differ):
            return PlaceboOutcome.TOO_FEW
        if self.p_differ < ALPHA:
            better = self.ratio.value < 1
            return PlaceboOutcome.BETTER if better else PlaceboOutcome.WORSE
        equivalent = self.p_region < ALPHA
        return PlaceboOutcome.EQUIVALENT if equivalent else PlaceboOutcome.UNPROVEN

    @property
    def possible(self) -> float:
        """The largest difference within the interval, as a share of the rule's score."""
        return max(1 - self.ratio.low, self.ratio.high - 1)


class Paired(NamedTuple):
    """The scores of a rule and its baseline, summed over the seeds of each prompt: all [N].

    A score of 0 to 1 counts as that fraction of a right answer: ``gained`` sums max(r − b, 0),
    ``lost`` max(b − r, 0). For answers that are right or wrong these are cells of the paired
    fourfold table.
    """

    rule: Array
    baseline: Array
    gained: Array
    lost: Array
    binary: bool

    @property
    def totals(self) -> tuple[float, float, float, float]:
        """Return totals of rule, baseline, gained and lost."""
        rule, baseline, gained, lost = map(
            np.sum, (self.rule, self.baseline, self.gained, self.lost)
        )
        return float(rule), float(baseline), float(gained), float(lost)

    @property
    def ratio(self) -> float:
        """The ratio of the totals; nan where the baseline's is 0."""
        return over(*self.totals[:2])


def paired(rule: Array, baseline: Array, prompt: Indices, *, binary: bool) -> Paired:
    """Pair the scores of single runs, [R]."""
    _, index = np.unique(prompt, return_inverse=True)

    def summed(scores: Array) -> Array:
        return np.bincount(index, scores).astype(np.float64)

    more = rule - baseline
    return Paired(
        summed(rule), summed(baseline), summed(more.clip(0)), summed((-more).clip(0)), binary
    )


def ratio_interval(pairs: Paired) -> Interval:
    """Return the ratios φ that the score test does not reject: |T(φ)| ≤ z (Nam & Blackwelder 2002),
    T with the design effect.

    Unlike a bootstrap interval it does not shrink to a point where no answers differ.
    """
    value = pairs.ratio
    if math.isnan(value):
        return Interval()
    statistic = score_statistic(pairs)
    share = value / (1 + value)
    low = _end(lambda ratio: statistic(ratio) > Z, 0.0, share) if value else 0.0
    return Interval(value, low, _end(lambda ratio: statistic(ratio) > -Z, share, 1.0))


def possible(interval: Interval, base: Array) -> Interval:
    """Return the interval of a ratio to the scores ``base``, [R], up to where every run scores
    1."""
    return interval._replace(high=min(interval.high, over(base.size, float(base.sum()))))


def score_statistic(pairs: Paired) -> Callable[[float], float]:
    """Return T(φ), which falls: about normal where φ is the true ratio."""
    rule, baseline, gained, lost = pairs.totals
    scale = math.sqrt(design_effect(pairs))

    def statistic(ratio: float) -> float:
        return (rule - ratio * baseline) / (
            null_deviation(ratio, rule - gained, gained, lost) * scale
        )

    return statistic


def placebo_test(pairs: Paired, region: float) -> PlaceboTest:
    """Return the test before Holm's correction. ``pairs``: scores of random and of the rule;
    ``region``: the ratios 1 ± region are equivalent. Both tests reject at 5 % what the 95 %
    interval excludes."""
    test = PlaceboTest(ratio_interval(pairs), len(pairs.rule))
    if math.isnan(test.ratio.value) or test.prompts < LEAST_PROMPTS:
        return test
    statistic = score_statistic(pairs)
    outside = max(-statistic(1 - region), statistic(1 + region))
    return replace(
        test,
        p_differ=2 * NormalDist().cdf(-abs(statistic(1.0))),
        p_region=min(1.0, 2 * NormalDist().cdf(outside)),
    )


def corrected(tests: Sequence[PlaceboTest]) -> list[PlaceboTest]:
    """Correct by Holm's method over all of them, for each hypothesis."""
    decided = [test for test in tests if test.p_differ <= 1]
    differ, region = (
        iter(holm([getattr(test, name) for test in decided])) for name in ("p_differ", "p_region")
    )
    return [
        replace(test, p_differ=next(differ), p_region=next(region)) if test.p_differ <= 1 else test
        for test in tests
    ]


def null_deviation(ratio: float, both: float, gained: float, lost: float) -> float:
    """Return the standard deviation of ``rule − ratio·baseline`` (totals of independent runs) where
    ``ratio`` is the true one: √(n·φ·(g + l)).

    g and l are the maximum likelihood shares of gained and lost runs under that ratio (constrained,
    closed form of Nam & Blackwelder 2002, Statistics in Medicine 21, 689-699). Runs that neither
    answered correctly do not contribute.
    """
    runs = both + gained + lost
    a = ratio * (1 + ratio) * runs
    b = both + gained - ratio**2 * (both + lost + 2 * gained)
    c = -gained * ratio * (1 - ratio)
    more = (-b + math.sqrt(max(0.0, b * b - 4 * a * c))) / (2 * a)
    less = max(0.0, 1 - ratio + ratio * more)
    return math.sqrt(max(runs * ratio * (more + less), math.ulp(1.0)))


def design_effect(pairs: Paired) -> float:
    """Return the ratio of the variance to that of independent binary runs; 1 for one seed of such
    runs.

    Σᵢ(Rᵢ − φBᵢ)² over prompts, divided by φ·(gained + lost), its expectation for independent runs.
    To both one average prompt that is lost with all its seeds is added: where almost no answers
    differ the correlation of seeds is unknown, and n prompts then count as n, for any number of
    seeds. Fractional scores vary less than binary ones, so theirs may be below 1.
    """
    _, baseline, gained, lost = pairs.totals
    prompts, ratio = len(pairs.baseline), pairs.ratio
    spread = float(np.square(pairs.rule - ratio * pairs.baseline).sum())
    one = float(np.square(pairs.baseline).sum()) / prompts
    effect = (spread + one) / (ratio * (gained + lost) + baseline / prompts)
    return max(1.0, effect) if pairs.binary else effect


def _end(above: Callable[[float], bool], low: float, high: float) -> float:
    """Return the ratio at which ``above`` becomes false; ``low`` and ``high`` on the scale ratio /
    (1 + ratio)."""
    middle = sum(bisected(low, high, ROUNDS, lambda share: above(share / (1 - share)))) / 2
    return middle / (1 - middle) if middle < 1 else math.inf


def verdict(recovery: Interval, prompts: int, margin: float) -> RecoveryOutcome:
    """Return supported where all of the 95 % interval is at ``margin`` or above, not supported
    where all of it is below; each errs in 2.5 %."""
    if prompts >= LEAST_PROMPTS and recovery.low >= margin:
        return RecoveryOutcome.SUPPORTED
    if prompts >= LEAST_PROMPTS and recovery.high < margin:
        return RecoveryOutcome.NOT_SUPPORTED
    return RecoveryOutcome.TOO_FEW


def right_answers_needed(
    tolerance: float, differ: float = 0.0, *, sides: int = 1, comparisons: int = 1
) -> float:
    """Return those of the baseline, on as many prompts, to tell with a probability of 80 % that a
    score which is as high keeps all but ``tolerance`` of it, with two ``sides`` that it is not
    above it by more either. ``differ``: answers that are lost or gained, per right one of the
    baseline; ``comparisons``: of which Holm's method corrects the first.

    Without any that differ an end is A / (A + z²) or its inverse, which is certain. No number
    tells that nothing at all is lost.
    """
    if not tolerance > 0:
        return math.inf
    z = -NormalDist().inv_cdf(ALPHA / 2 / comparisons)
    least = z**2 / tolerance - (z**2 if sides == 1 else 0)
    reach = z - NormalDist().inv_cdf((1 - POWER) / sides)
    return max(LEAST_PROMPTS, math.ceil(least), math.ceil(differ * (reach / tolerance) ** 2))
