"""The tests of draws: exact levels, power, and agreement with SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact, multinomial

from evaluation.statistics import fit_p, same_p

P = np.array([0.5, 0.3, 0.15, 0.05])


def test_fit_is_the_exact_multinomial_test() -> None:
    """Against the sum over all outcomes with a statistic as large."""
    observed = np.array([2, 1, 2, 1])
    outcomes = np.array([(a, b, c, 6 - a - b - c) for a in range(7) for b in range(7 - a) for c in range(7 - a - b)])

    def statistic(counts: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.nansum(counts * np.log(counts / (6 * P)), axis=-1)

    extreme = outcomes[statistic(outcomes) >= statistic(observed) - 1e-9]
    expected = multinomial(6, P).pmf(extreme).sum()
    assert fit_p([observed], [P], seed=0) == pytest.approx(expected, abs=0.05)


def test_one_stratum_of_two_categories_is_fishers_test() -> None:
    table = np.array([[14, 6], [7, 13]])
    category = np.repeat([0, 1, 0, 1], table.ravel())
    second = np.repeat([0, 1], table.sum(1))
    found = same_p(np.zeros(40, np.intp), [category], second, seed=0)
    assert found == pytest.approx(fisher_exact(table).pvalue, abs=0.01)


def test_the_hypothesis_is_rejected_as_often_as_the_level_says() -> None:
    """200 samples of each kind; at the 5 % level more than 19 rejections have a probability of 0.2 %."""
    generator = np.random.default_rng(1)
    fits, pairs = [], []
    for seed in range(200):
        first, then = generator.choice(2, 60), generator.choice(4, 60, p=P)
        fits.append(fit_p([np.bincount(then[first == at], minlength=4) for at in (0, 1)], [P, P], seed))
        pairs.append(same_p(first, [4 * first + then], np.repeat([0, 1], 30), seed))
    assert sum(p < 0.05 for p in fits) <= 19
    assert sum(p < 0.05 for p in pairs) <= 19
    assert min(fits) > 1e-4 and min(pairs) > 1e-4


def test_another_distribution_is_found_and_a_first_token_alone_is_not_evidence() -> None:
    generator = np.random.default_rng(2)
    other = np.array([0.1, 0.7, 0.15, 0.05])
    assert fit_p([np.bincount(generator.choice(4, 100, p=other), minlength=4)], [P], seed=0) == 1 / 50_000
    first = np.repeat([0, 1, 0, 1], [40, 60, 60, 40])  # differs between the samples: a stratum
    second = np.repeat([0, 1], 100)
    same = 4 * first + generator.choice(4, 200, p=P)
    assert same_p(first, [same], second, seed=0) > 0.05
    shifted = 4 * first + np.where(second, generator.choice(4, 200, p=other), same % 4)
    assert same_p(first, [shifted], second, seed=0) < 1e-4


def test_a_draw_of_probability_0_is_the_least_p() -> None:
    assert fit_p([np.array([40, 1])], [np.array([1.0, 0.0])], seed=0) == 1 / 50_000
    assert fit_p([np.array([40, 0])], [np.array([1.0, 0.0])], seed=0) == 1.0
