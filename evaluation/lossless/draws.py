"""Monte Carlo tests of the draws of a server."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evaluation.statistics import BLOCK, Array, Counts

SCREENED, SCREEN = 999, 0.05  # draws that are simulated first, and p below which more are
RESAMPLES = 49_999  # at least
FINER = 4  # the least p that can be found is this many times below the level


def fit_p(
    counts: Sequence[Counts],
    expected: Sequence[Array],
    seed: int,
    least: float,
    *,
    pooled: bool = False,
) -> float:
    """p of the hypothesis that ``counts[i]`` [Cᵢ] are multinomial draws with the probabilities
    ``expected[i]`` [Cᵢ].

    The statistic is G = 2 Σ O·ln(O/E) over all cells of all tables, or of the sum of the tables if
    they are ``pooled`` (all Cᵢ equal); its distribution is simulated, so p is exact for any number
    of draws. ``least``: the level of this test among all that are corrected together.
    """
    from scipy.special import rel_entr

    generator = np.random.default_rng(seed)
    sizes = [int(each.sum()) for each in counts]

    def statistic(tables: Sequence[Counts]) -> Array:
        means = [size * p for size, p in zip(sizes, expected, strict=True)]
        if pooled:
            tables, means = [sum(tables[1:], tables[0])], [sum(means[1:], means[0])]
        values = [rel_entr(table, mean).sum(-1) for table, mean in zip(tables, means, strict=True)]
        total: Array = sum(values, np.zeros(1))
        return total

    observed = float(statistic([each[None] for each in counts])[0])
    rows = max(1, BLOCK // (sum(len(each) for each in counts) + 1))

    def simulated(resamples: int) -> float:
        """Return (1 + simulated statistics ≥ the observed one) / (1 + all)."""
        reached = 0
        for start in range(0, resamples, rows):
            size = min(rows, resamples - start)
            drawn = [
                generator.multinomial(n, p, size) for n, p in zip(sizes, expected, strict=True)
            ]
            reached += int((statistic(drawn) >= observed - 1e-6).sum())
        return (1 + reached) / (1 + resamples)

    # valid with the screening too, because the second sample is independent
    p = simulated(SCREENED)
    return p if p >= SCREEN else simulated(max(RESAMPLES, math.ceil(FINER / least)))
