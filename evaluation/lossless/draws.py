"""Monte Carlo tests of the draws of a server."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evaluation.statistics import BLOCK, Array, Counts

SCREENED, SCREEN = 999, 0.05  # draws that are simulated first, and p below which more are
RESAMPLES = 49_999  # at least
FINER = 4  # the least p that can be found is this many times below the level


class Draws(NamedTuple):
    """What was drawn next after a beginning of the answers to a prompt: how often each of the most
    probable tokens, in this order, and all others together, and with which probability, [C].
    ``later``: whether the beginning has a token."""

    counts: Counts
    expected: Array
    later: bool = False


def fit_p(tables: Sequence[Draws], seed: int, least: float, *, pooled: bool = False) -> float:
    """Return p of the hypothesis that the counts of each table are multinomial draws with its
    probabilities.

    The statistic is G = 2 Σ O·ln(O/E) over all cells of all tables, or of the sum of the tables if
    they are ``pooled`` (all Cᵢ equal); its distribution is simulated, so p is exact for any number
    of draws. ``least``: the level of this test among all that are corrected together.
    """
    from scipy.special import rel_entr

    generator = np.random.default_rng(seed)
    drawn = [(int(each.counts.sum()), each.expected) for each in tables]  # how many, from what
    means = [size * p for size, p in drawn]

    def statistic(rows: Sequence[Counts]) -> Array:
        """``rows[i]``: counts of samples, [R, Cᵢ]; returns [R]."""
        pairs = [(sum(rows), sum(means))] if pooled else zip(rows, means, strict=True)
        total: Array = sum((rel_entr(*pair).sum(-1) for pair in pairs), np.zeros(1))
        return total

    observed = float(statistic([each.counts[None] for each in tables])[0])
    block = max(1, BLOCK // (sum(len(mean) for mean in means) + 1))

    def simulated(resamples: int) -> float:
        """Return (1 + simulated statistics ≥ the observed one) / (1 + all)."""
        reached = 0
        for start in range(0, resamples, block):
            size = min(block, resamples - start)
            rows = [generator.multinomial(*each, size) for each in drawn]
            reached += int((statistic(rows) >= observed - 1e-6).sum())
        return (1 + reached) / (1 + resamples)

    # valid with the screening too, because the second sample is independent
    p = simulated(SCREENED)
    return p if p >= SCREEN else simulated(max(RESAMPLES, math.ceil(FINER / least)))
