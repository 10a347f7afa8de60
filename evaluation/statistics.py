"""Intervals and tests of paired measurements. Pure functions of numbers;
docs/reference/statistics.md defines each.

The unit of every interval is the prompt with all its seeds: R runs belong to N prompts, ``prompt``
[R] has the number of each run's prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
BOOTSTRAP = 2000  # resamples of prompts
BLOCK = 4_000_000  # weights of the bootstrap at once: 32 MB

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Indices = NDArray[np.intp]


class Interval(NamedTuple):
    """A value with the ends of its 95 % interval."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


def interval_columns(name: str) -> tuple[str, str, str]:
    """Return the columns of an interval in CSV files."""
    return name, f"{name}_low", f"{name}_high"


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact test of two paired proportions. ``gained``: right here and wrong under the baseline;
    ``lost``: the reverse."""

    gained: int
    lost: int
    p: float  # two-sided, exact binomial; counts prompt × seed as independent
    p_by_prompt: float  # sign flips per prompt: valid with several seeds too
    # p_by_prompt after Holm's correction over all comparisons; nan if it is not one of them
    p_holm: float = math.nan


def over(part: float, total: float) -> float:
    """``part / total``, nan where it is undefined."""
    return part / total if total else math.nan


def bisected(
    low: float, high: float, rounds: int, above: Callable[[float], bool]
) -> tuple[float, float]:
    """Return the ends, after so many halvings, around the number up to which ``above`` is true:
    whether that number is larger than a middle."""
    for _ in range(rounds):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high


def quartiles(values: Array) -> Interval:
    """Return the median between first and third quartile, by linear interpolation (R's type 7); nan
    where there is no value. Values of nan are left out."""
    known = values[~np.isnan(values)]
    return (
        Interval(*map(float, np.quantile(known, (0.5, 0.25, 0.75)))) if known.size else Interval()
    )


def paired_ratios(values: Sequence[float], bases: Sequence[float]) -> list[float]:
    """``values / bases`` by round; rounds in which either was not measured (nan, 0 or infinite) are
    left out."""
    return [
        a / b for a, b in zip(values, bases, strict=False) if 0 < a < math.inf and 0 < b < math.inf
    ]


def mean_ratio(ratios: Sequence[float]) -> Interval:
    """Return the geometric mean of ``paired_ratios`` with Student's interval of the mean of their
    logarithms; of less than two it is missing."""
    if (n := len(ratios)) < 2:
        return Interval()
    logs = np.log(ratios)
    middle = float(logs.mean())
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2) * logs.std(ddof=1)) / math.sqrt(n)
    return Interval(*map(math.exp, (middle, middle - half, middle + half)))


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """Return Wilson's 95 % score interval of a proportion (E. B. Wilson 1927), within [0, 1]; (nan,
    nan) for 0 trials."""
    if not trials:
        return math.nan, math.nan
    share, weight = successes / trials, Z * Z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    low = max(0.0, middle - half) if successes else 0.0
    return low, 1.0 if successes == trials else min(1.0, middle + half)


def count_interval(part: int, total: int) -> Interval:
    """``part / total`` with Wilson's interval."""
    return Interval(over(part, total), *wilson(part, total))


def share_interval(hits: Array, prompt: Indices) -> Interval:
    """Return the share of 1 among ``hits`` (0 or 1 a run, [R]; nan is left out).

    Wilson's interval on R / d runs. d is the ratio of the variance to that of independent runs,
    with one prompt added whose seeds all agree; at least 1. With one seed per prompt it is Wilson's
    interval.
    """
    known = np.isfinite(hits)
    hits, prompt = hits[known], prompt[known]
    if not hits.size:
        return Interval()
    share = float(hits.mean())
    _, index = np.unique(prompt, return_inverse=True)
    seeds = np.bincount(index).astype(np.float64)
    spread = float(np.square(np.bincount(index, hits) - share * seeds).sum())
    nominal = hits.size * share * (1 - share)
    one, runs = float(np.square(seeds).sum()) / len(seeds), hits.size / len(seeds)
    effect = max(1.0, (spread + one / 4) / (nominal + runs / 4))  # a fair coin's variance is 1/4
    trials = hits.size / effect
    return Interval(share, *wilson(trials if share == 1 else share * trials, trials))


def resampled_totals(columns: Array, resamples: int, seed: int) -> Array:
    """Return the bootstrap of prompts: totals of every resample, [B, C], from the totals of every
    prompt, ``columns`` [N, C].

    A resample draws N of the N prompts with replacement, all seeds of a prompt with it; any ratio
    or difference of totals is then a function of the resampled totals (Davison & Hinkley 1997,
    Bootstrap Methods and their Application, 3.8: clusters). The prompts of resample b are row b of
    ``numpy.random.default_rng(seed).integers(N, size=(B, N))``.
    """
    prompts = len(columns)
    generator = np.random.default_rng(seed)
    rows = max(1, BLOCK // max(1, prompts))
    totals = []
    for size in (min(rows, resamples - start) for start in range(0, resamples, rows)):
        sample = (
            generator.integers(prompts, size=(size, prompts)) + prompts * np.arange(size)[:, None]
        )
        drawn = np.bincount(
            sample.ravel(), minlength=size * prompts
        )  # how often each prompt is drawn
        totals.append(drawn.reshape(size, prompts).astype(np.float64) @ columns)
    return np.concatenate(totals)


def totals_by_prompt(values: Array, prompt: Indices) -> Array:
    """Return totals of ``values`` [R, C] over all rows, then over every one of ``BOOTSTRAP``
    resamples, [1 + B, C]; prompt [R]: the number of each row's prompt, 0 to N - 1."""
    by_prompt = np.zeros((int(prompt.max(initial=-1)) + 1, values.shape[1]))
    np.add.at(by_prompt, prompt, values)
    return np.vstack([by_prompt.sum(axis=0), resampled_totals(by_prompt, BOOTSTRAP, 0)])


def percentile_intervals(samples: Iterable[Array], prompts: int) -> tuple[Interval, ...]:
    """Return expanded percentile intervals: of each sample, [1 + B], the first value from the
    others, which are its resampled ones.

    Percentiles need no variance estimate and are the same for a ratio and its inverse. Resamples
    without a value (0 / 0) are left out; the ends are nan for fewer than 2 prompts.
    """
    intervals = []
    for sample in samples:
        value, finite = float(sample[0]), sample[1:][np.isfinite(sample[1:])]
        interval = Interval(value)
        if prompts > 1 and finite.size and math.isfinite(value):
            tail = tail_level(prompts)
            interval = Interval(value, *map(float, np.quantile(finite, (tail, 1 - tail))))
        intervals.append(interval)
    return tuple(intervals)


def mean_interval(values: Array, prompt: Indices) -> Interval:
    """Return that of the mean of the finite values, with its percentile interval by prompt."""
    known = np.isfinite(values)
    prompts, index = np.unique(prompt[known], return_inverse=True)
    if not prompts.size:
        return Interval()
    columns = np.stack([values[known], np.ones(len(index))], axis=1)
    totals, amounts = totals_by_prompt(columns, index).T
    return percentile_intervals([totals / amounts], len(prompts))[0]


@cache
def tail_level(prompts: int) -> float:
    """Return the share of resamples below the interval (and above it): Φ(−t·√(n/(n − 1))), t the
    97.5 % point of Student's distribution.

    2.5 % for many prompts, 0.9 % for 10 (T. Hesterberg 2015, What Teachers Should Know about the
    Bootstrap, 5.3).
    """
    from scipy.special import stdtrit

    t = float(stdtrit(prompts - 1, (1 + CONFIDENCE) / 2))
    return NormalDist().cdf(-t * math.sqrt(prompts / (prompts - 1)))


def mcnemar(difference: Counts, prompt: Indices) -> McNemar:
    """Test answers. ``difference``: right (1) or wrong (0) under the rule minus the same under its
    baseline, of every run, [R].

    ``p``: exact and two-sided; counts every run as independent of the others. ``p_by_prompt``:
    ``sign_flips`` per prompt.
    """
    from scipy.stats import binomtest

    gained, lost = int((difference > 0).sum()), int((difference < 0).sum())
    p = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    return McNemar(gained, lost, p, sign_flips(np.bincount(prompt, difference).astype(np.int64)))


def sign_flips(differences: Counts) -> float:
    """Return the two-sided p: the probability that |Σ ±dᵢ| ≥ |Σ dᵢ| with random signs; dᵢ the sum
    over a prompt's seeds, [N].

    Exact, by convolution: with one seed per prompt it is exact McNemar; with several it is valid
    for any correlation between them.
    """
    from scipy.stats import binom

    distribution = np.ones(1)  # of (Σ ±dᵢ + Σ|dᵢ|) / 2
    sizes = np.abs(differences)
    for size, coins in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        spread = np.zeros(coins * size + 1)
        spread[::size] = binom.pmf(np.arange(coins + 1), coins, 0.5)
        distribution = np.convolve(distribution, spread)
    sums = 2 * np.arange(len(distribution)) - sizes.sum()
    return min(1.0, float(distribution[np.abs(sums) >= abs(differences.sum())].sum()))


def holm(values: Sequence[float]) -> tuple[float, ...]:
    """Return adjusted p values: rejecting those below α has a family-wise error rate of at most α
    (S. Holm 1979); in the given order."""
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.maximum.accumulate(
        np.minimum(1.0, np.arange(len(values), 0, -1) * np.asarray(values)[order])
    )
    return tuple(map(float, adjusted))
