"""The score interval of the ratio of paired scores, and the verdict on it: published values,
simulated coverage and studies."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from evaluation.recovery import (
    LEAST_PROMPTS,
    Paired,
    PlaceboOutcome,
    RecoveryOutcome,
    corrected,
    paired,
    placebo_test,
    possible,
    ratio_interval,
    right_answers_needed,
    verdict,
)

Array = NDArray[np.float64]


def table(both: int, gained: int, lost: int, neither: int = 0, *, seeds: int = 1) -> Paired:
    """A paired fourfold table of prompts whose seeds all agree."""
    rule = np.repeat([1.0, 1, 0, 0], np.array([both, gained, lost, neither]) * seeds)
    baseline = np.repeat([1.0, 0, 1, 0], np.array([both, gained, lost, neither]) * seeds)
    return paired(rule, baseline, np.repeat(np.arange(len(rule) // seeds), seeds), binary=True)


def drawn(
    generator: np.random.Generator,
    prompts: int,
    seeds: int,
    *,
    right: float,
    recovery: float,
    differ: float,
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Scores of rule and baseline and the prompt of each run: seeds of a prompt hang together with
    correlation 0.5 and 0.3.

    The baseline is right with probability ``right``, the rule with ``recovery`` × that, and they
    differ with probability ``differ``.
    """

    def uniforms(share: float) -> Array:
        common, own = (generator.standard_normal((prompts, each)) for each in (1, seeds))
        uniform: Array = ndtr(np.sqrt(share) * common + np.sqrt(1 - share) * own).ravel()
        return uniform

    loses, gains = (differ + (1 - recovery) * right) / 2, (differ - (1 - recovery) * right) / 2
    baseline, coin = uniforms(0.5) < right, uniforms(0.3)
    rule = np.where(baseline, coin >= loses / right, coin < gains / (1 - right))
    return rule.astype(float), baseline.astype(float), np.repeat(np.arange(prompts), seeds)


COUNTS = st.integers(0, 60)
Z = 1.959963984540054


def test_the_interval_is_the_published_one() -> None:
    # Fagerland, Lydersen, Laake 2014, Statistics in Medicine 33, table V: airway data, Tang's
    # asymptotic score interval
    interval = ratio_interval(table(1, 1, 7, 12))
    assert interval.value == 0.25
    assert (interval.low, interval.high) == pytest.approx((0.065, 0.907), abs=5e-4)


@given(COUNTS, COUNTS, COUNTS)
def test_the_interval_holds_the_ratio_and_turns_with_it(both: int, gained: int, lost: int) -> None:
    if not both + lost or not both + gained:
        return
    one, other = (ratio_interval(table(both, *each)) for each in ((gained, lost), (lost, gained)))
    assert 0 <= one.low <= one.value <= one.high
    assert (1 / other.value, 1 / other.high, 1 / other.low) == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("prompts", [1, 5, 188, 189, 1000])
@pytest.mark.parametrize("seeds", [1, 3, 50])
def test_perfect_prompts_count_once_whatever_the_seeds(prompts: int, seeds: int) -> None:
    interval = ratio_interval(table(prompts, 0, 0, 7, seeds=seeds))
    assert interval.low == pytest.approx(
        prompts / (prompts + Z**2), rel=1e-9
    )  # by hand, where nothing differs
    assert (interval.low >= 0.98) == (prompts >= 189)


def test_nothing_right_has_no_ratio_but_bounds() -> None:
    nothing, unknown = ratio_interval(table(0, 0, 5)), ratio_interval(table(0, 5, 0))
    assert nothing.value == nothing.low == 0 and 0.5 < nothing.high < 1
    assert all(map(math.isnan, unknown))


@pytest.mark.parametrize(
    ("recovery", "prompts", "seeds"), [(1.0, 300, 3), (0.98, 100, 1), (0.9, 100, 3), (1.0, 40, 8)]
)
def test_the_interval_holds_the_truth_as_often_as_it_says(
    recovery: float, prompts: int, seeds: int
) -> None:
    generator, held = np.random.default_rng(7), []
    for _ in range(250):
        scores = drawn(generator, prompts, seeds, right=0.8, recovery=recovery, differ=0.1)
        interval = ratio_interval(paired(*scores, binary=True))
        held.append(interval.low <= recovery <= interval.high)
    assert np.mean(held) >= 0.92  # 0.95 ± 0.03; more where prompts are few


def test_rare_losses_do_not_escape_scores_in_part() -> None:
    """Of scores that hardly vary 2 % are lost altogether: few prompts must not make a narrow
    interval."""
    generator, prompt = np.random.default_rng(3), np.arange(60)

    def study() -> Paired:
        baseline = generator.uniform(0.2, 0.5, 60)
        return paired(
            np.where(generator.random(60) < 0.02, 0, baseline), baseline, prompt, binary=False
        )

    held = [
        interval.low <= 0.98 <= interval.high
        for interval in (ratio_interval(study()) for _ in range(200))
    ]
    assert np.mean(held) >= 0.93


def judged(pairs: Paired, margin: float = 0.98) -> RecoveryOutcome:
    return verdict(ratio_interval(pairs), len(pairs.rule), margin)


@pytest.mark.parametrize(
    ("recovery", "differ", "supported", "refused"),
    [
        (0.88, 0.15, (0, 0), (0.97, 1)),
        (1.0, 0.1, (0.2, 1), (0, 0.025)),
        (0.98, 0.05, (0, 0.04), (0, 0.05)),
    ],
    ids=["harm", "no harm", "at the margin"],
)
def test_harm_is_caught_and_no_harm_not_accused(
    recovery: float, differ: float, supported: tuple[float, float], refused: tuple[float, float]
) -> None:
    """Shares of 300 studies, at least and at most: each verdict errs in 2.5 % and chance."""
    generator, outcomes = np.random.default_rng(17), Counter[RecoveryOutcome]()
    for _ in range(300):
        scores = drawn(generator, 300, 3, right=0.8, recovery=recovery, differ=differ)
        outcomes[judged(paired(*scores, binary=True))] += 1
    for outcome, (least, most) in (
        (RecoveryOutcome.SUPPORTED, supported),
        (RecoveryOutcome.NOT_SUPPORTED, refused),
    ):
        assert least * 300 <= outcomes[outcome] <= most * 300


@pytest.mark.parametrize(
    ("pairs", "margin", "outcome"),
    [
        (table(5, 0, 0, seeds=20), 0.98, RecoveryOutcome.TOO_FEW),
        (table(400, 0, 0), 0.98, RecoveryOutcome.SUPPORTED),
        (table(100, 0, 60), 0.955, RecoveryOutcome.NOT_SUPPORTED),
        (table(29, 0, 0), 0.5, RecoveryOutcome.TOO_FEW),
        (table(30, 0, 0), 0.5, RecoveryOutcome.SUPPORTED),
        (table(0, 0, 30), 0.98, RecoveryOutcome.NOT_SUPPORTED),
    ],
)
def test_a_verdict_is_of_the_interval_and_of_thirty_prompts_at_least(
    pairs: Paired, margin: float, outcome: RecoveryOutcome
) -> None:
    assert judged(pairs, margin) is outcome


def test_an_end_is_not_above_what_is_possible() -> None:
    """Where strict answers all, no rule recovers more than 100 %; where it answers 2 of 30, 1500 %."""
    for pairs, low, high in ((table(60, 0, 0), 0.93, 1), (table(1, 0, 1, 28), 0.09, 15)):
        interval = possible(ratio_interval(pairs), pairs.baseline)
        assert low < interval.low < interval.value <= interval.high <= high
    assert ratio_interval(table(60, 0, 0)).high > 1


def test_an_outcome_is_that_of_the_interval_before_holms_correction_and_rarer_after_it() -> None:
    generator = np.random.default_rng(8)
    tests = []
    for prompts, recovery in product((20, 200, 1000), (1.0, 0.97, 0.9)):
        scores = drawn(generator, prompts, 3, right=0.8, recovery=recovery, differ=0.15)
        tests.append(placebo_test(paired(*scores, binary=True), 0.05))
    expected = {
        PlaceboOutcome.BETTER: lambda test: test.ratio.high < 1,
        PlaceboOutcome.EQUIVALENT: lambda test: test.ratio.low > 0.95 and test.ratio.high < 1.05,
        PlaceboOutcome.UNPROVEN: lambda test: test.ratio.low < 1 < test.ratio.high,
        PlaceboOutcome.TOO_FEW: lambda test: test.prompts == 20,
    }
    assert {test.outcome for test in tests} == expected.keys()
    assert all(expected[test.outcome](test) for test in tests)
    after = corrected(tests)
    decided = [each for each in after if not math.isnan(each.p_differ)]
    assert [each.ratio for each in after] == [each.ratio for each in tests] and len(decided) == 6
    smallest = min(tests[3:], key=lambda test: test.p_differ)
    assert after[tests.index(smallest)].p_differ == pytest.approx(6 * smallest.p_differ)


@pytest.mark.parametrize("differ", [0.0, 0.1, 0.3])
def test_the_number_needed_decides_in_four_of_five(differ: float) -> None:
    """Of a score that is as high, at a margin and within a region of equivalence."""
    generator = np.random.default_rng(6)
    cells = np.array([1 - differ / 2, differ / 2, differ / 2]) / (1 + differ / 2)
    for sides, wanted in ((1, RecoveryOutcome.SUPPORTED), (2, PlaceboOutcome.EQUIVALENT)):
        right = right_answers_needed(0.05, differ, sides=sides)
        prompts = round(right * (1 + differ / 2))
        outcomes = []
        for _ in range(200):
            pairs = table(*generator.multinomial(prompts, cells))
            test = placebo_test(pairs, 0.05).outcome
            outcomes.append(judged(pairs, 0.95) if sides == 1 else test)
        assert 0.72 <= np.mean([each is wanted for each in outcomes]) <= (1 if not differ else 0.9)


def test_numbers_needed_have_a_minimum_and_none_shows_that_nothing_is_lost() -> None:
    assert right_answers_needed(1 - 0.98) == 189
    assert right_answers_needed(0.5) == LEAST_PROMPTS
    assert right_answers_needed(0.05, sides=2, comparisons=8) > right_answers_needed(0.05, sides=2)
    assert right_answers_needed(0.0) == math.inf
