"""The ratio of two paired scores, as a score interval: it does not shrink to a point where nothing differed. Knows no run.

A score of 0 to 1 counts as that part of a right answer. Of a prompt's runs, ``both`` is what rule and baseline got, ``gained`` what only
the rule got, ``lost`` what only the baseline got: sums of min(r, b), max(r − b, 0) and max(b − r, 0). For answers that are right or wrong
these are the cells of the paired fourfold table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from evaluation.inference.bootstrap import CONFIDENCE
from evaluation.report.values import Interval

Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
ROUNDS = 44  # of bisection: to 2**-44 on the scale ratio / (1 + ratio)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Paired:
    """The scores of a rule and its baseline, summed over the seeds of each prompt: all [N]."""

    rule: Array
    baseline: Array
    gained: Array
    lost: Array
    binary: bool

    @property
    def value(self) -> float:
        """Ratio of the totals; nan where the baseline got nothing."""
        baseline = float(self.baseline.sum())
        return float(self.rule.sum()) / baseline if baseline else math.nan


def paired(rule: Array, baseline: Array, prompt: NDArray[np.intp], *, binary: bool) -> Paired:
    """From the scores of single runs, [R], and the number of each run's prompt, [R]."""
    _, place = np.unique(prompt, return_inverse=True)

    def summed(scores: Array) -> Array:
        return np.bincount(place, scores).astype(np.float64)

    more = rule - baseline
    return Paired(summed(rule), summed(baseline), summed(more.clip(0)), summed((-more).clip(0)), binary)


def ratio_interval(pairs: Paired) -> Interval:
    """The ratios φ that the score test does not refute: |T(φ)| ≤ z (Nam & Blackwelder 2002), T with the design effect."""
    value = pairs.value
    if math.isnan(value):
        return Interval()
    rule, baseline, gained, lost = _totals(pairs)
    scale = math.sqrt(design_effect(pairs))

    def statistic(ratio: float) -> float:
        return (rule - ratio * baseline) / (null_deviation(ratio, rule - gained, gained, lost) * scale)

    low = _bisect(lambda ratio: statistic(ratio) > Z, 0.0, _share(value)) if value else 0.0
    return Interval(value, low, _bisect(lambda ratio: statistic(ratio) > -Z, _share(value), 1.0))


def null_deviation(ratio: float, both: float, gained: float, lost: float) -> float:
    """Standard deviation of ``rule − ratio·baseline`` (totals of independent runs) where ``ratio`` is the true one: √(n·φ·(g + l)).

    g and l are the likeliest shares of gained and lost runs under that ratio (constrained maximum likelihood, closed form of Nam &
    Blackwelder 2002, Statistics in Medicine 21, 689-699). Runs that neither got right drop out.
    """
    runs = both + gained + lost
    a = ratio * (1 + ratio) * runs
    b = both + gained - ratio**2 * (both + lost + 2 * gained)
    c = -gained * ratio * (1 - ratio)
    more = (-b + math.sqrt(max(0.0, b * b - 4 * a * c))) / (2 * a)
    less = max(0.0, 1 - ratio + ratio * more)
    return math.sqrt(max(runs * ratio * (more + less), math.ulp(1.0)))


def design_effect(pairs: Paired) -> float:
    """How many times the variance is that of independent runs that are right or wrong; 1 for one seed of such runs.

    Σᵢ(Rᵢ − φBᵢ)² over prompts, by φ·(gained + lost), what independent runs have on average. To both one average prompt that is lost
    altogether is added, with all its seeds: where next to nothing differed nobody knows how seeds hang together, and n prompts
    then count as n, whatever the number of seeds. Scores between 0 and 1 vary less than right and wrong, so theirs may be below 1.
    """
    prompts = len(pairs.baseline)
    ratio = pairs.value
    spread = float(np.square(pairs.rule - ratio * pairs.baseline).sum())
    nominal = ratio * float(pairs.gained.sum() + pairs.lost.sum())
    one, runs = float(np.square(pairs.baseline).sum()) / prompts, float(pairs.baseline.sum()) / prompts
    effect = (spread + one) / (nominal + runs)
    return max(1.0, effect) if pairs.binary else effect


def _totals(pairs: Paired) -> tuple[float, float, float, float]:
    rule, baseline, gained, lost = (
        float(part.sum()) for part in (pairs.rule, pairs.baseline, pairs.gained, pairs.lost)
    )
    return rule, baseline, gained, lost


def _share(ratio: float) -> float:
    return ratio / (1 + ratio)


def _bisect(above: Callable[[float], bool], low: float, high: float) -> float:
    """The ratio where ``above`` turns false; ``low`` and ``high`` on the scale ratio / (1 + ratio)."""
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle / (1 - middle)) else (low, middle)
    middle = (low + high) / 2
    return middle / (1 - middle) if middle < 1 else math.inf
