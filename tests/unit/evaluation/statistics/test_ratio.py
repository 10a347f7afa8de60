"""The score interval of the ratio of paired scores: published values, maximum likelihood found numerically, simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from evaluation.recovery import Paired, null_deviation, paired, ratio_interval
from tests.unit.evaluation.statistics.tables import drawn, table

COUNTS = st.integers(0, 60)
Z = 1.959963984540054


def test_the_interval_is_the_published_one() -> None:
    # Fagerland, Lydersen, Laake 2014, Statistics in Medicine 33, table V: airway data, Tang's asymptotic score interval
    interval = ratio_interval(table(1, 1, 7, 12))
    assert interval.value == 0.25
    assert (interval.low, interval.high) == pytest.approx((0.065, 0.907), abs=5e-4)


@given(COUNTS.filter(bool), COUNTS, COUNTS, st.floats(0.05, 20))
def test_null_variance_is_that_of_maximum_likelihood(both: int, gained: int, lost: int, ratio: float) -> None:
    """The likelihood of a paired table with rule = ratio × baseline, maximised over its one free share by a numeric search."""
    runs = both + gained + lost

    def minus_log_likelihood(more: float) -> float:
        cells = (ratio - (1 + ratio) * more, more, 1 - ratio + ratio * more)
        return -sum(
            count * math.log(max(cell, 1e-300))
            for count, cell in zip((both, gained, lost), cells, strict=True)
            if count
        )

    bounds = max(0.0, (ratio - 1) / ratio), ratio / (1 + ratio)
    found = minimize_scalar(minus_log_likelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12})
    more = min((found.x, *bounds), key=minus_log_likelihood)
    likely = runs * ratio * (more + 1 - ratio + ratio * more)
    assert null_deviation(ratio, both, gained, lost) ** 2 == pytest.approx(likely, rel=1e-4, abs=1e-4)


@given(COUNTS.filter(bool), COUNTS.filter(bool), COUNTS.filter(bool))
def test_the_ends_are_where_the_test_refutes(both: int, gained: int, lost: int) -> None:
    interval = ratio_interval(table(both, gained, lost))

    def distance(ratio: float) -> float:
        excess = both + gained - ratio * (both + lost)
        return abs(excess) / null_deviation(ratio, both, gained, lost) - Z

    assert interval.low == pytest.approx(brentq(distance, 1e-9, interval.value, xtol=1e-14), rel=1e-7)
    assert interval.high == pytest.approx(brentq(distance, interval.value, 1e9, xtol=1e-14), rel=1e-7)


@given(COUNTS, COUNTS, COUNTS)
def test_the_interval_holds_the_ratio_and_turns_with_it(both: int, gained: int, lost: int) -> None:
    if not both + lost or not both + gained:
        return
    one, other = ratio_interval(table(both, gained, lost)), ratio_interval(table(both, lost, gained))
    assert 0 <= one.low <= one.value <= one.high
    assert (1 / other.value, 1 / other.high, 1 / other.low) == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("prompts", [1, 5, 188, 189, 1000])
@pytest.mark.parametrize("seeds", [1, 3, 50])
def test_perfect_prompts_count_once_whatever_the_seeds(prompts: int, seeds: int) -> None:
    interval = ratio_interval(table(prompts, 0, 0, 7, seeds=seeds))
    assert interval.low == pytest.approx(prompts / (prompts + Z**2), rel=1e-9)  # by hand, where nothing differs
    assert (interval.low >= 0.98) == (prompts >= 189)


def test_scores_in_part_count_like_prompts_where_nothing_differs() -> None:
    same = np.array([0.3, 0.3, 0.3, 0.0])
    interval = ratio_interval(paired(same, same, np.arange(4), binary=False))
    assert interval.low == pytest.approx(3 / (3 + Z**2), rel=1e-9)


def test_seeds_that_agree_count_as_one() -> None:
    one, five = ratio_interval(table(80, 6, 9, 30)), ratio_interval(table(80, 6, 9, 30, seeds=5))
    assert five == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize(("rule", "value"), [(0, 0.0), (1, math.nan)])
def test_nothing_right_has_no_ratio_but_bounds(rule: int, value: float) -> None:
    interval = ratio_interval(table(0, 5, 0) if rule else table(0, 0, 5))
    assert interval.value == pytest.approx(value, nan_ok=True)
    assert math.isnan(interval.low) if rule else (interval.low == 0 and 0.5 < interval.high < 1)


def coverage(recovery: float, prompts: int, seeds: int, rounds: int = 250) -> float:
    generator = np.random.default_rng(7)
    ends = [
        ratio_interval(paired(*drawn(generator, prompts, seeds, right=0.8, recovery=recovery, differ=0.1), binary=True))
        for _ in range(rounds)
    ]
    return float(np.mean([interval.low <= recovery <= interval.high for interval in ends]))


@pytest.mark.parametrize(("recovery", "prompts", "seeds"), [(1.0, 300, 3), (0.98, 100, 1), (0.9, 100, 3), (1.0, 40, 8)])
def test_the_interval_holds_the_truth_as_often_as_it_says(recovery: float, prompts: int, seeds: int) -> None:
    assert coverage(recovery, prompts, seeds) >= 0.92  # 250 studies: 0.95 ± 0.03; more where prompts are few


def test_rare_losses_do_not_escape_scores_in_part() -> None:
    """Of scores that hardly vary 2 % are lost altogether: few prompts must not make a narrow interval."""
    generator, prompt = np.random.default_rng(3), np.arange(60)

    def study() -> Paired:
        baseline = generator.uniform(0.2, 0.5, 60)
        return paired(np.where(generator.random(60) < 0.02, 0, baseline), baseline, prompt, binary=False)

    held = [interval.low <= 0.98 <= interval.high for interval in (ratio_interval(study()) for _ in range(200))]
    assert np.mean(held) >= 0.93
