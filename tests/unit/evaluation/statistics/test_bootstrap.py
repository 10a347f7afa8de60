"""The bootstrap of whole prompts against plain loops, SciPy's own and simulated coverage; shares against Wilson; means of ratios."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, t

from evaluation import statistics as module
from evaluation.report.values import Interval
from evaluation.statistics import mean_ratio, percentile_intervals, resampled_totals, share_interval, tail_level, wilson

COLUMNS = np.random.default_rng(5).gamma(2.0, size=(40, 3))


def percentile_interval(value: float, resampled: np.ndarray, prompts: int) -> Interval:
    """``percentile_intervals`` of one number; ``resampled`` [B]."""
    (found,) = percentile_intervals(np.array([value]), resampled[None], prompts)
    return found


def test_totals_are_those_of_the_prompts_drawn() -> None:
    drawn = np.random.default_rng(11).integers(40, size=(50, 40))
    expected = np.array([COLUMNS[row].sum(axis=0) for row in drawn])
    assert resampled_totals(COLUMNS, 50, 11) == pytest.approx(expected)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resampled_totals(COLUMNS, 33, 2)
    monkeypatch.setattr(module, "BLOCK", 7 * 40)
    assert resampled_totals(COLUMNS, 33, 2) == pytest.approx(whole)


@pytest.mark.parametrize("prompts", [2, 10, 300])
def test_levels_are_wider_for_few_prompts(prompts: int) -> None:
    expected = norm.cdf(-t.ppf(0.975, prompts - 1) * math.sqrt(prompts / (prompts - 1)))
    assert tail_level(prompts) == pytest.approx(expected)
    assert tail_level(prompts) < 0.025


def test_one_prompt_has_no_interval() -> None:
    found = percentile_interval(1.5, np.full(10, 1.5), 1)
    assert found.value == 1.5
    assert math.isnan(found.low) and math.isnan(found.high)


@pytest.mark.parametrize("prompts", [20, 60])
def test_the_interval_holds_the_truth_as_often_as_it_says(prompts: int) -> None:
    """Tokens over seconds, where long answers are slower: the truth is 1 by symmetry."""
    generator, held = np.random.default_rng(9), []
    for _ in range(250):
        size = generator.gamma(3.0, size=(prompts, 1))
        columns = size * generator.lognormal(0, 0.2, size=(prompts, 2))
        totals, resampled = columns.sum(axis=0), resampled_totals(columns, 300, 0)
        found = percentile_interval(totals[0] / totals[1], resampled[:, 0] / resampled[:, 1], prompts)
        held.append(found.low <= 1 <= found.high)
    assert 0.90 <= np.mean(held) <= 0.985


def test_a_share_of_single_runs_is_wilsons() -> None:
    for hits in (0, 3, 11, 20):
        found = share_interval(np.repeat([1.0, 0.0], [hits, 20 - hits]), np.arange(20))
        assert found == pytest.approx((hits / 20, *wilson(hits, 20)))


@pytest.mark.parametrize("right", [0, 7, 10])
def test_seeds_that_agree_are_one_run(right: int) -> None:
    hits = np.repeat([1.0, 0.0], [right * 4, (10 - right) * 4])
    assert share_interval(hits, np.repeat(np.arange(10), 4)) == pytest.approx((right / 10, *wilson(right, 10)))


def test_seeds_that_vary_less_than_independent_runs_count_no_more_than_those() -> None:
    hits, prompt = np.tile([1.0, 0.0], 10), np.repeat(np.arange(10), 2)
    assert share_interval(hits, prompt) == pytest.approx((0.5, *wilson(10, 20)))


def test_nothing_has_no_share() -> None:
    assert all(map(math.isnan, share_interval(np.empty(0), np.empty(0, dtype=np.intp))))


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe 1998, Statistics in Medicine 17, table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_what_scipy_computes(tried: tuple[int, int]) -> None:
    expected = binomtest(*tried).proportion_ci(0.95, method="wilson")
    assert wilson(*tried) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_nothing_tried_has_no_interval() -> None:
    assert all(math.isnan(bound) for bound in wilson(0, 0))


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, -1)])
def test_impossible_counts_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="successes is"):
        wilson(successes, trials)


def test_the_interval_is_students_of_the_logarithms() -> None:
    ratios = [1.1, 1.4, 1.2, 0.9]
    logs = np.log(ratios)
    low, high = t.interval(0.95, 3, loc=logs.mean(), scale=logs.std(ddof=1) / 2)
    assert mean_ratio(ratios) == pytest.approx((math.exp(logs.mean()), math.exp(low), math.exp(high)))


def test_one_ratio_has_no_interval() -> None:
    value, low, high = mean_ratio([1.25])
    assert value == 1.25 and math.isnan(low) and math.isnan(high)


def test_the_interval_of_a_mean_ratio_holds_the_truth_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0).lognormal(0.2, 0.1, size=(4000, 3))
    held = np.mean([low < math.exp(0.2) < high for _, low, high in map(mean_ratio, draws.tolist())])
    assert 0.935 < held < 0.965


@pytest.mark.parametrize("ratios", [[], [0.0], [1.0, -1.0], [math.nan], [math.inf]])
def test_ratios_must_be_positive(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="must be positive numbers, at least one"):
        mean_ratio(ratios)
