"""Tests by betting are valid for few prompts and any scores: bounds by hand, simulated studies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from evaluation.advise.certificate import CandidateOutcome, decided
from evaluation.betting import (
    above,
    difference_interval,
    least_prompts,
    log_wealth,
    p_value,
    ratio_bound,
)
from evaluation.statistics import Array

STUDIES, ALPHA, MARGIN = 2000, 0.05, 0.95
# True recoveries of the candidates in their order: the first that is below the margin is so barely,
# where the error is largest.
RECOVERIES = np.array([1.0, 0.99, MARGIN - 1e-6, 0.93, 0.9])


def test_so_many_right_answers_are_needed() -> None:
    assert [least_prompts(margin, ALPHA) for margin in (0.98, 0.95, 0.9)] == [192, 76, 37]
    for margin in (0.98, 0.9):
        needed = np.ones(least_prompts(margin, ALPHA))
        assert ratio_bound(needed, needed, ALPHA) >= margin - 1e-9
        assert ratio_bound(needed[1:], needed[1:], ALPHA) < margin
    # no answer lost on HumanEval
    assert ratio_bound(np.ones(164), np.ones(164), ALPHA) == pytest.approx(0.9767, abs=1e-4)
    for margin in (0.0, 1.0):
        with pytest.raises(ValueError, match="margin is"):
            least_prompts(margin, ALPHA)


@pytest.mark.parametrize("margin", [1 - 1e-5, 1 - 1e-10, math.nextafter(1, 0)])
@pytest.mark.parametrize("alpha", [ALPHA, math.ulp(0.0)])
def test_a_margin_near_1_takes_no_memory(margin: float, alpha: float) -> None:
    gain = 1 / margin - 1

    def wealth(prompts: int) -> float:
        shares = np.sin(math.pi / 2 * (np.arange(16) + 0.5) / 16)
        return float(np.logaddexp.reduce(prompts * np.log1p(shares * gain)) - math.log(16))

    needed, tolerance = least_prompts(margin, alpha), 1e-9
    assert wealth(needed) >= -math.log(alpha) * (1 - tolerance)
    assert wealth(math.floor(needed * (1 - tolerance)) - 1) < -math.log(alpha)


def test_what_was_lost_counts_and_nothing_is_no_evidence() -> None:
    strict, rule = np.ones(300), np.ones(300)
    assert p_value(above(rule[:0], strict[:0], 0.98)) == 1
    before = ratio_bound(rule, strict, ALPHA)
    rule[100:103] = 0
    assert ratio_bound(rule * 0, strict, ALPHA) < 1e-9
    assert ratio_bound(rule, strict, ALPHA) < before < 1
    interval, mirrored = (difference_interval(each, ALPHA) for each in (rule - 1, 1 - rule))
    assert interval.low < interval.value == -0.01 < interval.high == pytest.approx(-mirrored.low)
    least = interval.low
    assert p_value((rule - 1 - least) / (1 + least)) == pytest.approx(ALPHA / 2, rel=1e-3)
    assert all(map(math.isnan, difference_interval(rule[:0], ALPHA)))


def simulated(prompts: int, seeds: int, right: float, gain: float) -> tuple[Array, Array]:
    """Scores of strict [S, N] and the candidates [C, S, N], means over the seeds of a prompt. Seeds
    of a prompt hang together, and so do all candidates on one run."""
    generator = np.random.default_rng([prompts, seeds])
    shape = (STUDIES, prompts, seeds)

    def uniforms() -> Array:
        common = generator.standard_normal((STUDIES, prompts, 1))
        drawn: Array = ndtr((common + generator.standard_normal(shape)) / math.sqrt(2))
        return drawn

    strict, change = uniforms() < right, uniforms()
    losses = 1 - RECOVERIES + gain * (1 - right) / right
    rules = [np.where(strict, change >= loss, change < gain).mean(axis=-1) for loss in losses]
    return strict.mean(axis=-1), np.stack(rules)


@pytest.mark.parametrize(
    ("prompts", "seeds", "right", "gain"),
    [(80, 1, 0.97, 0.0), (80, 3, 0.9, 0.1), (300, 1, 0.9, 0.02), (300, 3, 0.6, 0.02)],
)
def test_the_chosen_setting_is_below_the_margin_in_at_most_5_percent_of_studies(
    prompts: int, seeds: int, right: float, gain: float
) -> None:
    """The observed share is at most 5 %; with 2,000 studies its standard error is 0.5 %, and a true
    error above 6.2 % would be observed as such with probability 1 % at most."""
    assert binom.cdf(STUDIES * ALPHA, STUDIES, 0.062) < 0.02
    strict, rules = simulated(prompts, seeds, right, gain)
    enough = -math.log(ALPHA)
    supported = np.stack(
        [log_wealth(above(rule, strict, MARGIN)).max(axis=-1) >= enough for rule in rules]
    )
    chosen = np.logical_and.accumulate(supported).sum(axis=0)  # candidates up to the chosen one
    wrong = int((chosen > (RECOVERIES >= MARGIN).sum()).sum())
    assert wrong <= ALPHA * STUDIES
    assert prompts < 300 or (chosen > 0).mean() > 0.9  # it decides
    for study in range(20):
        outcome = decided(rules[2, study], strict[study], 0, MARGIN, ALPHA)
        assert (outcome is CandidateOutcome.SUPPORTED) == supported[2, study]


def test_an_outcome_is_decided_as_soon_as_it_is_certain() -> None:
    ones, zeros = np.ones(200), np.zeros(200)
    cases = [
        (ones, 0, CandidateOutcome.SUPPORTED),
        (zeros[:20], 500, CandidateOutcome.BELOW),
        (ones[:20], 180, CandidateOutcome.RUNNING),
        (ones[:20], 100, CandidateOutcome.NOT_DECIDED),
        (ones[:0], 0, CandidateOutcome.NOT_DECIDED),
    ]
    for rule, left, outcome in cases:
        assert decided(rule, ones[: len(rule)], left, 0.98, ALPHA) is outcome
