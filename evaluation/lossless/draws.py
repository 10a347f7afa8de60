"""Monte Carlo tests of the draws of a server."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from evaluation.statistics import BLOCK, Array, Counts

# the second number, at least, is drawn only if the first gives p < SCREEN
RESAMPLES = (999, 49_999)
SCREEN = 0.05
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

    def simulated(resamples: int) -> Array:
        return statistic(
            [generator.multinomial(n, p, resamples) for n, p in zip(sizes, expected, strict=True)]
        )

    width = sum(len(each) for each in counts) + 1
    observed = float(statistic([each[None] for each in counts])[0])
    return _monte_carlo(observed, simulated, width, least)


def _monte_carlo(
    observed: float, simulated: Callable[[int], Array], width: int, least: float
) -> float:
    """Return (1 + simulated statistics ≥ the observed one) / (1 + all); valid with the screening
    too (the second sample is independent).

    ``width``: numbers in memory for one of them."""
    p, rows = 1.0, max(1, BLOCK // width)
    for resamples in (RESAMPLES[0], max(RESAMPLES[1], math.ceil(FINER / least))):
        if p < SCREEN or resamples == RESAMPLES[0]:
            sizes = (min(rows, resamples - start) for start in range(0, resamples, rows))
            p = (1 + sum(int((simulated(size) >= observed - 1e-6).sum()) for size in sizes)) / (
                1 + resamples
            )
    return p
