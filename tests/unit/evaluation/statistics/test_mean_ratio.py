"""The mean of paired ratios: Student's interval of their logarithms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from evaluation.statistics import mean_ratio


def test_the_interval_is_students_of_the_logarithms() -> None:
    ratios = [1.1, 1.4, 1.2, 0.9]
    logs = np.log(ratios)
    low, high = t.interval(0.95, 3, loc=logs.mean(), scale=logs.std(ddof=1) / 2)
    assert mean_ratio(ratios) == pytest.approx((math.exp(logs.mean()), math.exp(low), math.exp(high)))


def test_one_ratio_has_no_interval() -> None:
    value, low, high = mean_ratio([1.25])
    assert value == 1.25 and math.isnan(low) and math.isnan(high)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0).lognormal(0.2, 0.1, size=(4000, 3))
    held = np.mean([low < math.exp(0.2) < high for _, low, high in map(mean_ratio, draws.tolist())])
    assert 0.935 < held < 0.965


@pytest.mark.parametrize("ratios", [[], [0.0], [1.0, -1.0], [math.nan], [math.inf]])
def test_ratios_must_be_positive(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="must be positive numbers, at least one"):
        mean_ratio(ratios)
