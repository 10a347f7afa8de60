"""Recovery: the ratio of a rule's score to its baseline's, its score interval, and the verdict on
the user's margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from evaluation.statistics import Array, Indices, Interval, Z, bisected, over

POWER = 0.8
MAX_NEEDED = 1_000_000  # prompts; above that no number is reported
ROUNDS = 44  # of bisection: to 2**-44 on the scale ratio / (1 + ratio)


class RecoveryOutcome(StrEnum):
    """The result of the test of recovery against the margin."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    TOO_FEW = "too few prompts"


@dataclass(frozen=True, slots=True)
class RecoveryVerdict:
    """Whether recovery ≥ margin. ``needed``: approximate number of prompts for a conclusive
    verdict; None if unknown."""

    margin: float
    outcome: RecoveryOutcome
    needed: int | None
    sentence: str  # e.g. "recovery ≥ 98 %: too few prompts, need about 240"


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
        """Totals of rule, baseline, gained and lost."""
        rule, baseline, gained, lost = map(
            np.sum, (self.rule, self.baseline, self.gained, self.lost)
        )
        return float(rule), float(baseline), float(gained), float(lost)

    @property
    def ratio(self) -> float:
        """The ratio of the totals; nan where the baseline's is 0."""
        return over(*self.totals[:2])


def paired(rule: Array, baseline: Array, prompt: Indices, *, binary: bool) -> Paired:
    """From the scores of single runs, [R]."""
    _, index = np.unique(prompt, return_inverse=True)

    def summed(scores: Array) -> Array:
        return np.bincount(index, scores).astype(np.float64)

    more = rule - baseline
    return Paired(
        summed(rule), summed(baseline), summed(more.clip(0)), summed((-more).clip(0)), binary
    )


def ratio_interval(pairs: Paired) -> Interval:
    """The ratios φ that the score test does not reject: |T(φ)| ≤ z (Nam & Blackwelder 2002), T with
    the design effect.

    Unlike a bootstrap interval it does not shrink to a point where no answers differ.
    """
    value = pairs.ratio
    if math.isnan(value):
        return Interval()
    rule, baseline, gained, lost = pairs.totals
    scale = math.sqrt(design_effect(pairs))

    def statistic(ratio: float) -> float:
        return (rule - ratio * baseline) / (
            null_deviation(ratio, rule - gained, gained, lost) * scale
        )

    share = value / (1 + value)
    low = _end(lambda ratio: statistic(ratio) > Z, 0.0, share) if value else 0.0
    return Interval(value, low, _end(lambda ratio: statistic(ratio) > -Z, share, 1.0))


def null_deviation(ratio: float, both: float, gained: float, lost: float) -> float:
    """Standard deviation of ``rule − ratio·baseline`` (totals of independent runs) where ``ratio``
    is the true one: √(n·φ·(g + l)).

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
    """The ratio of the variance to that of independent binary runs; 1 for one seed of such runs.

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
    """The ratio at which ``above`` becomes false; ``low`` and ``high`` on the scale ratio / (1 +
    ratio)."""
    middle = sum(bisected(low, high, ROUNDS, lambda share: above(share / (1 - share)))) / 2
    return middle / (1 - middle) if middle < 1 else math.inf


def verdict(recovery: Interval, pairs: Paired, margin: float) -> RecoveryVerdict:
    """Supported where all of the 95 % interval is at ``margin`` or above, not supported where all of
    it is below; each errs in 2.5 %."""
    outcome, needed, sentence = (
        RecoveryOutcome.TOO_FEW,
        None,
        "cannot be computed, the baseline scored nothing",
    )
    if recovery.low >= margin:
        outcome = sentence = RecoveryOutcome.SUPPORTED
    elif recovery.high < margin:
        outcome = sentence = RecoveryOutcome.NOT_SUPPORTED
    elif pairs.baseline.sum():
        needed = prompts_needed(pairs, margin)
        about = f"need about {needed:,}" if needed else "and too near the margin for any number"
        sentence = f"too few prompts, {about}"
    return RecoveryVerdict(margin, outcome, needed, f"recovery ≥ {100 * margin:g} %: {sentence}")


def right_answers_needed(margin: float) -> int:
    """Of the baseline, on as many prompts: from there on a rule that loses none of them has a
    recovery ≥ ``margin`` < 1, as A / (A + z²) ≥ margin."""
    return math.ceil(Z**2 * margin / (1 - margin))


def prompts_needed(pairs: Paired, margin: float) -> int | None:
    """Number of similar prompts for a conclusive verdict with 80 % power, if the recovery is as
    observed (at most 1); two significant digits.

    N = n·((z₀.₉₇₅·s₀ + z₀.₈·s₁) / (R − margin·B))², with s₀ and s₁ the standard deviations of R −
    margin·B if recovery is the margin and as observed. None above a million.
    """
    rule, baseline, gained, lost = pairs.totals
    prompts = len(pairs.rule)
    distance = min(rule, baseline) - margin * baseline
    null = null_deviation(margin, rule - gained, gained, lost) * math.sqrt(design_effect(pairs))
    observed = float((pairs.rule - margin * pairs.baseline).std()) * math.sqrt(prompts)
    reach = Z * null + NormalDist().inv_cdf(POWER) * observed
    if abs(distance) * math.sqrt(MAX_NEEDED) <= reach * math.sqrt(prompts):
        return None
    number = prompts * (reach / distance) ** 2
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1) if number > 1 else 1
    return max(prompts + 1, math.ceil(math.nextafter(number, 0) / unit) * int(unit))
