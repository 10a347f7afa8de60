"""Tests of "no difference" between paired scores: exact McNemar, sign flips of whole prompts, Holm's correction. Knows no run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evaluation.report.values import McNemar

Counts = NDArray[np.int64]


def mcnemar(difference: Counts, prompt: NDArray[np.intp]) -> McNemar:
    """``difference``: right (1) or wrong (0) under the rule minus the same under its baseline, of every run, [R]; ``prompt`` [R]."""
    gained, lost = int((difference > 0).sum()), int((difference < 0).sum())
    by_prompt = np.bincount(prompt, difference).astype(np.int64)
    return McNemar(gained, lost, exact_mcnemar(gained, lost), sign_flips(by_prompt))


def exact_mcnemar(gained: int, lost: int) -> float:
    """Two-sided: twice the lower tail of Binomial(gained + lost, ½), 1 at most. Counts every run as independent of the others."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(gained, lost), gained + lost, 0.5))) if gained + lost else 1.0


def sign_flips(differences: Counts) -> float:
    """Two-sided: how often |Σ ±dᵢ| reaches |Σ dᵢ| when every sign is drawn by a fair coin; dᵢ the sum over a prompt's seeds, [N].

    Exact, by convolution: with one seed a prompt it is exact McNemar, with several it holds however the seeds hang together.
    """
    law = np.ones(1)  # of (Σ ±dᵢ + Σ|dᵢ|) / 2
    sizes = np.abs(differences)
    for size in np.unique(sizes[sizes > 0]):
        law = np.convolve(law, _spread(int((sizes == size).sum()), int(size)))
    sums = 2 * np.arange(len(law)) - sizes.sum()
    return min(1.0, float(law[np.abs(sums) >= abs(differences.sum())].sum()))


def _spread(coins: int, size: int) -> NDArray[np.float64]:
    """Law of ``size`` × Binomial(coins, ½), [coins·size + 1]."""
    from scipy.special import gammaln

    heads = np.arange(coins + 1)
    law = np.zeros(coins * size + 1)
    law[::size] = np.exp(gammaln(coins + 1) - gammaln(heads + 1) - gammaln(coins - heads + 1) - coins * math.log(2))
    return law


def holm(values: Sequence[float]) -> tuple[float, ...]:
    """p values such that rejecting those below α errs at all with probability α at most (S. Holm 1979); in the order given."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    adjusted, largest = [1.0] * len(values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return tuple(adjusted)
