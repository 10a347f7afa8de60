"""What the scores of tokens say: whether rounding explains those that are not the reference's choice,
whether draws have its distribution, and what would have been found. docs/checking.md has the
statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import kolmogorov, ndtr, ndtri, pdtrc

from evaluation.lossless.reference import Scores
from evaluation.statistics import Array, holm

LEVEL = 0.001  # of all tests of a finding together
FOUND = 0.9  # the probability of the deviations that are reported as the power
# Rounding moves gaps by sigma nats: at least LEAST, UNKNOWN where the server reports no log
# probabilities, and more than MOST is no rounding. SPREAD: its tails are that much wider than
# normal ones (llama.cpp's are).
LEAST, UNKNOWN, MOST, SPREAD = 0.02, 0.2, 0.4, 1.5
CUTS = (2, 4, 8, 16)  # gaps, in sigma, beyond which tokens are counted
_TRIALS = 200
_SHARES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
_FEW = 5  # of the variance of a count: below it is not normal


def beyond_rounding(gap: Array, margin: Array, sigma: float) -> float:
    """Return p of the hypothesis that rounding of ``sigma`` nats makes every token that is not the
    reference's choice: their number beyond each of CUTS against a Poisson distribution, times the
    number of cuts."""
    p = 1.0
    for cut in (each * sigma for each in CUTS):
        expected = float(ndtr(-np.maximum(margin, cut) / (SPREAD * sigma)).sum())
        found = int((gap > cut).sum())
        p = min(p, float(pdtrc(found - 1, expected)) if found else 1.0)
    return min(1.0, len(CUTS) * p)


def found_at_zero(scores: Scores, sigma: float) -> float:
    """Return the smallest share of near ties at which the runner-up may be kept so that
    ``beyond_rounding`` finds it with probability FOUND; nan where there is none."""
    source, near = np.random.default_rng(0), ~np.isnan(scores.runner)
    for share in _SHARES:
        kept = near & (source.random((_TRIALS, len(near))) < share)
        rows = (beyond_rounding(scores.margin * each, scores.margin, sigma) for each in kept)
        if sum(p < LEVEL for p in rows) >= FOUND * _TRIALS:
            return share
    return math.nan


class Law(NamedTuple):
    """Draws at temperature 1 against the reference's distribution. p is corrected (Holm): of the
    mean of −ln p, of the runner-up at near ties, and of the ranks."""

    p: Sequence[float]
    surprise: float  # standard deviations of the mean of −ln p
    kept: float  # those of the number of runners-up at near ties; nan for too few near ties
    temperature: float  # that fits the mean of −ln p
    least_share: float  # of near ties with the runner-up kept beside its probability, that is found
    least_shift: float  # of the temperature, relative, that is found
    least_kl: float  # nats a token, of that shift


def law(scores: Scores, seed: int) -> Law:
    """Test draws against the distributions they should have. Under the hypothesis each statistic is
    a martingale over the tokens, whatever the prompts and lengths; ``seed``: of the ranks within a
    token's own probability."""
    information = max(float(scores.variance.sum()), 1e-9)
    surprise = float(scores.surprise.sum()) / math.sqrt(information)
    near = ~np.isnan(scores.runner)
    runner, second = scores.runner[near], scores.rank[near] == 2
    spread = float((runner * (1 - runner)).sum())
    known = spread >= _FEW
    kept = float((second - runner).sum()) / math.sqrt(spread) if known else math.nan
    share = np.random.default_rng(seed).random(len(scores.above))
    place = np.sort(scores.above + share * np.exp(scores.logprob))  # uniform in [0, 1]
    steps = np.arange(len(place) + 1) / len(place)
    distance = max(float((steps[1:] - place).max()), float((place - steps[:-1]).max()))
    tails = [2 * float(ndtr(-abs(each))) for each in (surprise, kept if known else 0.0)]
    p = holm([*tails, float(kolmogorov(math.sqrt(len(place)) * distance))])
    needed = float(ndtri(1 - LEVEL / 6) + ndtri(FOUND))
    shift = needed / math.sqrt(information)
    return Law(
        p,
        surprise,
        kept,
        1 / max(1 - float(scores.surprise.sum()) / information, 1e-9),
        needed * math.sqrt(spread) / float((1 - runner).sum()) if known else math.nan,
        shift,
        shift**2 * information / len(place) / 2,
    )
