"""Small statistics with an error bar. Standard library only; knows no run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (E. B. Wilson 1927), within [0, 1]; (nan, nan) where nothing was tried.

    Raises ValueError where ``successes`` are not 0 to ``trials`` or ``confidence`` is not between 0 and 1.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"successes is {successes}; it must be 0 to the number of trials, {trials}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence:g}; it must be between 0 and 1.")
    if not trials:
        return math.nan, math.nan
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    return low, 1.0 if successes == trials else min(1.0, middle + half)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile, by linear interpolation (R's type 7); nan where there is no value."""
    ordered = sorted(values)
    if not ordered:
        return math.nan, math.nan, math.nan
    return _quantile(ordered, 0.25), _quantile(ordered, 0.5), _quantile(ordered, 0.75)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def over(part: float, whole: float) -> float:
    """``part / whole``, nan where that is no number."""
    return part / whole if whole else math.nan
