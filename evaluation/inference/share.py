"""The share of runs with some property, with Wilson's interval on as many runs as the seeds of a prompt are worth. Knows no run."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evaluation.inference.ratio import Z
from evaluation.report.values import Interval


def share_interval(hits: NDArray[np.float64], prompt: NDArray[np.intp]) -> Interval:
    """Share of 1 among ``hits`` (0 or 1 a run, [R]) with ``prompt``, [R], the number of each run's prompt.

    Wilson's score interval on R / d runs. d is the variance of the share over what independent runs would have, with one prompt added
    whose seeds all go the same way; 1 at least. With one seed a prompt it is Wilson's interval (E. B. Wilson 1927).
    """
    if not hits.size:
        return Interval()
    share = float(hits.mean())
    _, place = np.unique(prompt, return_inverse=True)
    seeds = np.bincount(place).astype(np.float64)
    spread = float(np.square(np.bincount(place, hits) - share * seeds).sum())
    nominal = hits.size * share * (1 - share)
    one, runs = float(np.square(seeds).sum()) / len(seeds), hits.size / len(seeds)
    effect = max(1.0, (spread + one / 4) / (nominal + runs / 4))  # a fair coin's variance is 1/4
    return Interval(share, *_wilson(share, hits.size / effect))


def _wilson(share: float, trials: float) -> tuple[float, float]:
    weight = Z * Z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    return max(0.0, middle - half) if share > 0 else 0.0, min(1.0, middle + half) if share < 1 else 1.0
