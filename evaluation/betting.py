"""Tests and bounds for means of bounded numbers, by betting (I. Waudby-Smith & A. Ramdas 2024,
Estimating means of bounded random variables by betting, JRSS B 86:1).

A payoff y ≥ −1 has a mean of at most 0 under the hypothesis. Whoever bets the share u of his wealth
on each of them has Π(1 + u·y) in the end, a supermartingale with mean at most 1 whatever the
distribution. So the wealth, averaged over several u, ever reaches 1/α with probability α at most:
for any number of payoffs, any scores from 0 to 1, and any time at which one stops. The payoffs
must be independent of each other (prompts), not of anything else.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from evaluation.statistics import Array, Interval, bisected

# The shares are denser near 1, as few answers are lost near the margins that matter; small ones are
# for many lost and gained answers.
BETS = 16
SHARES = tuple(math.sin(math.pi / 2 * (number + 0.5) / BETS) for number in range(BETS))
HALVINGS = 40
MOST_RATIO = 4.0  # up to which a bound of a ratio is searched


def log_wealth(payoffs: Array) -> Array:
    """Return ln of the wealth after each payoff, [..., N]."""
    total = np.full(payoffs.shape, -np.inf)
    for share in SHARES:
        total = np.logaddexp(total, np.log1p(share * payoffs).cumsum(axis=-1))
    return total - math.log(BETS)


def p_value(payoffs: Array) -> float:
    """Return 1 over the largest wealth so far; 1 without payoffs."""
    return math.exp(-max(0.0, float(log_wealth(payoffs).max(initial=0.0))))


def above(rule: Array, baseline: Array, margin: float) -> Array:
    """Return payoffs against the hypothesis that rule's mean is at most ``margin`` times the
    baseline's; scores from 0 to 1, one a prompt."""
    payoffs: Array = rule / margin - baseline
    return payoffs


def below(rule: Array, baseline: Array, margin: float) -> Array:
    """Return payoffs against the hypothesis that it is at least that."""
    payoffs: Array = margin * baseline - rule
    return payoffs


def ratio_bound(rule: Array, baseline: Array, alpha: float) -> float:
    """Return the lower bound of mean(rule) / mean(baseline) at level 1 − α: the ratios below it are
    rejected."""

    def rejected(ratio: float) -> bool:
        return p_value(above(rule, baseline, ratio)) <= alpha

    return bisected(0.0, MOST_RATIO, HALVINGS, rejected)[0]


def difference_interval(differences: Array, alpha: float) -> Interval:
    """Return the interval of the mean of differences of two scores from 0 to 1, one a prompt, at
    level 1 − α: each end errs with α/2."""
    if not differences.size:
        return Interval()
    ends = (_least_mean(differences, alpha / 2), -_least_mean(-differences, alpha / 2))
    return Interval(float(differences.mean()), *ends)


def _least_mean(values: Array, alpha: float) -> float:
    def rejected(mean: float) -> bool:
        return p_value((values - mean) / (1 + mean)) <= alpha

    return bisected(-1.0, 1.0, HALVINGS, rejected)[0]


def least_prompts(margin: float, alpha: float) -> int:
    """Count the right answers of the baseline, none of them lost, after which a rule is supported.
    Raises ValueError for a margin that no number of answers supports."""
    if not 0 < margin < 1 or not 0 < alpha < 1:
        raise ValueError(
            f"margin is {margin:g} and alpha {alpha:g}; both must be above 0 and below 1."
        )
    growth = np.log1p(np.array(SHARES) * (1 / margin - 1))  # of ln wealth a prompt, by share
    enough = math.log(BETS) - math.log(alpha)
    most = math.ceil(enough / float(growth[-1])) + 1
    return bisect_left(range(most), enough, key=lambda n: float(np.logaddexp.reduce(n * growth)))
