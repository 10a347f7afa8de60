"""The score interval of the ratio of paired scores, and the verdict on it: published values,
simulated coverage and studies."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from evaluation.recovery import (
    Paired,
    RecoveryOutcome,
    RecoveryVerdict,
    paired,
    prompts_needed,
    ratio_interval,
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
        common, individual = (
            generator.standard_normal((prompts, 1)),
            generator.standard_normal((prompts, seeds)),
        )
        uniform: Array = ndtr(np.sqrt(share) * common + np.sqrt(1 - share) * individual).ravel()
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
    one, other = (
        ratio_interval(table(both, gained, lost)),
        ratio_interval(table(both, lost, gained)),
    )
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


def judged(pairs: Paired, margin: float = 0.98) -> RecoveryVerdict:
    return verdict(ratio_interval(pairs), pairs, margin)


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
        outcomes[judged(paired(*scores, binary=True)).outcome] += 1
    for outcome, (least, most) in (
        (RecoveryOutcome.SUPPORTED, supported),
        (RecoveryOutcome.NOT_SUPPORTED, refused),
    ):
        assert least * 300 <= outcomes[outcome] <= most * 300


@pytest.mark.parametrize(
    ("pairs", "margin", "outcome", "needed", "sentence"),
    [
        (
            table(5, 0, 0),
            0.98,
            RecoveryOutcome.TOO_FEW,
            190,
            "98 %: too few prompts, need about 190",
        ),
        (
            table(5, 0, 0, seeds=20),
            0.98,
            RecoveryOutcome.TOO_FEW,
            190,
            "98 %: too few prompts, need about 190",
        ),
        (table(400, 0, 0), 0.98, RecoveryOutcome.SUPPORTED, None, "98 %: supported"),
        (table(100, 0, 60), 0.955, RecoveryOutcome.NOT_SUPPORTED, None, "95.5 %: not supported"),
        (
            table(0, 3, 0, 9),
            0.98,
            RecoveryOutcome.TOO_FEW,
            None,
            "98 %: cannot be computed, the baseline scored nothing",
        ),
    ],
)
def test_a_verdict_names_its_margin_and_what_is_needed(
    pairs: Paired, margin: float, outcome: RecoveryOutcome, needed: int | None, sentence: str
) -> None:
    assert judged(pairs, margin) == RecoveryVerdict(
        margin, outcome, needed, f"recovery ≥ {sentence}"
    )


def test_more_prompts_are_needed_than_there_are_and_at_the_margin_no_number_is_named() -> None:
    assert (prompts_needed(table(3, 1, 0), 0.98) or 0) > 4
    assert judged(table(97, 1, 2)).needed  # 98 of 99 is 0.9899; at 98/99 exactly nothing would do
    assert prompts_needed(table(97, 1, 2), 98 / 99) is None


@pytest.mark.parametrize("cells", [(76, 4, 4, 16), (74, 3, 7, 16)])  # recovery 1 and 0.9625
def test_the_number_needed_answers_in_four_of_five(cells: tuple[int, int, int, int]) -> None:
    needed, generator = prompts_needed(table(*cells), 0.98) or 0, np.random.default_rng(6)
    studies = [
        judged(table(*generator.multinomial(needed, np.array(cells) / 100))) for _ in range(200)
    ]
    right = RecoveryOutcome.SUPPORTED if cells[1] == cells[2] else RecoveryOutcome.NOT_SUPPORTED
    assert 0.74 <= np.mean([study.outcome is right for study in studies]) <= 0.9  # ± 0.06 by chance
