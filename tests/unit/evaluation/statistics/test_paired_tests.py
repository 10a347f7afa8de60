"""McNemar, sign flips and Holm against SciPy, brute force and what each promises."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evaluation.statistics import holm, mcnemar, sign_flips

COUNTS = st.integers(0, 200)


def exact_mcnemar(gained: int, lost: int) -> float:
    """p of runs that all belong to prompts of their own."""
    return mcnemar(np.repeat([1, -1], [gained, lost]), np.arange(gained + lost)).p


@given(COUNTS, COUNTS)
def test_mcnemar_is_the_binomial_test_of_the_runs_that_differ(gained: int, lost: int) -> None:
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert exact_mcnemar(gained, lost) == pytest.approx(expected, rel=1e-9)


@given(COUNTS, COUNTS, st.integers(1, 4))
def test_sign_flips_of_equal_prompts_are_mcnemar(gained: int, lost: int, seeds: int) -> None:
    differences = np.repeat(np.array([seeds, -seeds, 0]), [gained, lost, 5])
    assert sign_flips(differences) == pytest.approx(exact_mcnemar(gained, lost), rel=1e-7)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=10))
def test_sign_flips_are_the_share_of_all_sign_patterns(differences: list[int]) -> None:
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    assert sign_flips(np.array(differences)) == pytest.approx(
        np.mean([found >= abs(sum(differences)) for found in sums])
    )


def test_holm_is_the_textbook_case() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_plain_value_and_bonferroni(values: list[float]) -> None:
    for plain, adjusted in zip(values, holm(values), strict=True):
        assert plain <= adjusted <= min(1.0, len(values) * plain)
