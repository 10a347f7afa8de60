"""The bootstrap, shares, means of ratios, tests of pairs and of draws: against SciPy, plain loops
and what each promises."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, multinomial, norm, t

from evaluation import statistics as module
from evaluation.lossless.draws import Draws, fit_p
from evaluation.statistics import (
    Interval,
    holm,
    mcnemar,
    mean_ratio,
    percentile_intervals,
    resampled_totals,
    share_interval,
    sign_flips,
    tail_level,
    wilson,
)

COLUMNS = np.random.default_rng(5).gamma(2.0, size=(40, 3))


def percentile_interval(value: float, resampled: np.ndarray, prompts: int) -> Interval:
    """``percentile_intervals`` of one number; ``resampled`` [B]."""
    (interval,) = percentile_intervals([np.append(value, resampled)], prompts)
    return interval


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = resampled_totals(COLUMNS, 33, 2)
    monkeypatch.setattr(module, "BLOCK", 7 * 40)
    assert resampled_totals(COLUMNS, 33, 2) == pytest.approx(at_once)


@pytest.mark.parametrize("prompts", [2, 10, 300])
def test_levels_are_wider_for_few_prompts(prompts: int) -> None:
    expected = norm.cdf(-t.ppf(0.975, prompts - 1) * math.sqrt(prompts / (prompts - 1)))
    assert tail_level(prompts) == pytest.approx(expected)
    assert tail_level(prompts) < 0.025


def test_one_prompt_and_nothing_have_no_interval_and_one_ratio_is_none() -> None:
    value, low, high = percentile_interval(1.5, np.full(10, 1.5), 1)
    assert value == 1.5 and math.isnan(low) and math.isnan(high)
    assert all(map(math.isnan, mean_ratio([1.5])))
    assert all(map(math.isnan, share_interval(np.empty(0), np.empty(0, dtype=np.intp))))


@pytest.mark.parametrize("prompts", [20, 60])
def test_the_interval_holds_the_truth_as_often_as_it_says(prompts: int) -> None:
    """Tokens over seconds, where long answers are slower: the truth is 1 by symmetry."""
    generator, held = np.random.default_rng(9), []
    for _ in range(250):
        size = generator.gamma(3.0, size=(prompts, 1))
        columns = size * generator.lognormal(0, 0.2, size=(prompts, 2))
        totals, resampled = columns.sum(axis=0), resampled_totals(columns, 300, 0)
        interval = percentile_interval(
            totals[0] / totals[1], resampled[:, 0] / resampled[:, 1], prompts
        )
        held.append(interval.low <= 1 <= interval.high)
    assert 0.90 <= np.mean(held) <= 0.985


@pytest.mark.parametrize("seeds", [1, 4])
@pytest.mark.parametrize("right", [0, 7, 10])
def test_seeds_that_agree_are_one_run_of_wilsons_interval(right: int, seeds: int) -> None:
    hits, prompt = (
        np.repeat([1.0, 0.0], [right * seeds, (10 - right) * seeds]),
        np.repeat(np.arange(10), seeds),
    )
    assert share_interval(hits, prompt) == pytest.approx((right / 10, *wilson(right, 10)))


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_what_scipy_computes(tried: tuple[int, int]) -> None:
    expected = binomtest(*tried).proportion_ci(0.95, method="wilson")
    assert wilson(*tried) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert all(map(math.isnan, wilson(0, 0)))


def test_the_interval_is_students_of_the_logarithms() -> None:
    ratios = [1.1, 1.4, 1.2, 0.9]
    logs = np.log(ratios)
    low, high = t.interval(0.95, 3, loc=logs.mean(), scale=logs.std(ddof=1) / 2)
    assert mean_ratio(ratios) == pytest.approx(
        (math.exp(logs.mean()), math.exp(low), math.exp(high))
    )


P = np.array([0.5, 0.3, 0.15, 0.05])
LEAST = 0.001  # the level of one test


def test_fit_is_the_exact_multinomial_test() -> None:
    """Against the sum over all outcomes with a statistic as large."""
    observed = np.array([2, 1, 2, 1])
    outcomes = np.array(
        [(a, b, c, 6 - a - b - c) for a in range(7) for b in range(7 - a) for c in range(7 - a - b)]
    )

    def statistic(counts: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.nansum(counts * np.log(counts / (6 * P)), axis=-1)

    extreme = outcomes[statistic(outcomes) >= statistic(observed) - 1e-9]
    expected = multinomial(6, P).pmf(extreme).sum()
    assert fit_p([Draws(observed, P)], 0, LEAST) == pytest.approx(expected, abs=0.05)


def test_the_hypothesis_is_rejected_as_often_as_the_level_says() -> None:
    """200 samples; at the 5 % level more than 19 rejections have a probability of 0.2
    %."""
    generator = np.random.default_rng(1)
    fits = []
    for seed in range(200):
        first, then = generator.choice(2, 60), generator.choice(4, 60, p=P)
        tables = [Draws(np.bincount(then[first == at], minlength=4), P) for at in (0, 1)]
        fits.append(fit_p(tables, seed, LEAST))
    assert sum(p < 0.05 for p in fits) <= 19
    assert min(fits) > 1e-4


COUNTS = st.integers(0, 200)


@given(COUNTS, COUNTS)
def test_mcnemar_is_the_binomial_test_of_the_runs_that_differ(gained: int, lost: int) -> None:
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    test = mcnemar(
        np.repeat([1, -1], [gained, lost]), np.arange(gained + lost)
    )  # each run has a separate prompt
    assert test.p == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=10))
def test_sign_flips_are_the_share_of_all_sign_patterns(differences: list[int]) -> None:
    signs = np.array(list(product((1, -1), repeat=len(differences))))
    expected = (abs(signs @ differences) >= abs(sum(differences))).mean()
    assert sign_flips(np.array(differences)) == pytest.approx(expected)


def test_holm_is_the_textbook_case() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([]) == ()
