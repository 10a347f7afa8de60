"""The bootstrap that draws whole prompts: every number of a lane, its baseline's and none's move together. Knows no run.

A resample draws n of the n prompts with replacement, all seeds of a prompt with it; any ratio or difference of totals is then a
function of the resampled totals, so that one product of a weight matrix with the prompts' totals serves all of them
(Davison & Hinkley 1997, Bootstrap Methods and their Application, 3.8: clusters).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from evaluation.report.values import Interval

CONFIDENCE = 0.95
BLOCK = 4_000_000  # weights at once: 32 MB

Array = NDArray[np.float64]


def resampled_totals(columns: Array, resamples: int, seed: int) -> Array:
    """Totals of every resample, [B, C], from the totals of every prompt, ``columns`` [N, C].

    The prompts of resample b are row b of ``numpy.random.default_rng(seed).integers(N, size=(B, N))``.
    """
    prompts = len(columns)
    totals = np.empty((resamples, columns.shape[1]))
    generator = np.random.default_rng(seed)
    rows = max(1, BLOCK // max(1, prompts))
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        totals[start : start + count] = _weights(generator, prompts, count) @ columns
    return totals


def _weights(generator: np.random.Generator, prompts: int, rows: int) -> Array:
    """How often each prompt is drawn, [rows, N]."""
    drawn = generator.integers(prompts, size=(rows, prompts)) + prompts * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * prompts).reshape(rows, prompts).astype(np.float64)


def percentile_intervals(values: Array, resampled: Array, prompts: Sequence[int]) -> tuple[Interval, ...]:
    """Expanded percentile intervals of numbers, ``values`` [Q], from their resampled values, [Q, B], and their counts of prompts.

    The ends are the percentiles Φ(±t·√(n/(n − 1))), t the 97.5 % point of Student's law with n − 1 degrees of freedom: 2.5 and 97.5 %
    for many prompts, 0.9 and 99.1 % for 10 (T. Hesterberg 2015, What Teachers Should Know about the Bootstrap, 5.3). Percentiles,
    because they need no variance and do not care whether a ratio or its inverse is asked for. Resamples without a value (0 / 0) are
    left out; the ends are nan for fewer than 2 prompts.
    """
    finite = np.isfinite(resampled)
    counts = finite.sum(axis=1)
    ordered = np.sort(resampled if finite.all() else np.where(finite, resampled, np.nan), axis=1)  # nan last
    return tuple(
        _between(float(value), row[:count], number)
        for value, row, count, number in zip(values, ordered, counts, prompts, strict=True)
    )


def percentile_interval(value: float, resampled: Array, prompts: int) -> Interval:
    """``percentile_intervals`` of one number; ``resampled`` [B]."""
    return percentile_intervals(np.array([value]), resampled[None], [prompts])[0]


def _between(value: float, ordered: Array, prompts: int) -> Interval:
    if prompts < 2 or not ordered.size or not math.isfinite(value):
        return Interval(value)
    tail = tail_level(prompts)
    return Interval(value, _quantile(ordered, tail), _quantile(ordered, 1 - tail))


def _quantile(ordered: Array, share: float) -> float:
    """Linear between neighbours: numpy's and R's default (type 7)."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (place - below) * (ordered[above] - ordered[below]))


@cache
def tail_level(prompts: int) -> float:
    """The share of resamples below the interval (and above it)."""
    from scipy.special import stdtrit

    t = float(stdtrit(prompts - 1, (1 + CONFIDENCE) / 2))
    return NormalDist().cdf(-t * math.sqrt(prompts / (prompts - 1)))
