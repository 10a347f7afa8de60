"""Monte Carlo tests of the draws of a server."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics import BLOCK, Array, Counts, Indices

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


def same_p(
    strata: Indices, categories: Sequence[Indices], second: Counts, seed: int, least: float
) -> float:
    """p of the hypothesis that two samples have the same distribution within every stratum, by
    permutations within strata.

    Draw i of n belongs to stratum ``strata[i]``, to the second sample where ``second[i]`` is 1, and
    to the category ``column[i]`` of each ``column`` of ``categories``. The statistic is G of
    samples × categories, summed over the columns. ``least``: as in ``fit_p``.
    """
    from scipy.special import xlogy

    generator = np.random.default_rng(seed)
    order = np.argsort(strata, kind="stable")
    ends = np.cumsum(np.bincount(strata))
    cells = np.concatenate(
        [np.eye(column.max() + 1, dtype=np.float32)[column[order]] for column in categories], axis=1
    )
    totals = cells.sum(0)

    def statistic(labels: NDArray[Any]) -> Array:
        counts = labels.astype(np.float32) @ cells
        total: Array = (xlogy(counts, counts) + xlogy(totals - counts, totals - counts)).sum(
            1, dtype=np.float64
        )
        return total

    def simulated(resamples: int) -> Array:
        labels = np.tile(second[order].astype(np.int8), (resamples, 1))
        for start, end in zip((0, *ends[:-1]), ends, strict=True):
            generator.permuted(labels[:, start:end], axis=1, out=labels[:, start:end])
        return statistic(labels)

    observed = float(statistic(second[order][None])[0])
    return _monte_carlo(observed, simulated, sum(cells.shape), least)


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
