"""The verdict: harm is caught, no harm is not accused, few prompts settle nothing, and the number needed is enough."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from evaluation.recovery import Paired, paired, prompts_needed, ratio_interval, verdict
from evaluation.report.values import Outcome, Verdict
from tests.unit.evaluation.statistics.tables import drawn, table


def outcomes(prompts: int, *, seeds: int = 3, recovery: float, differ: float, rounds: int = 300) -> Counter[Outcome]:
    generator = np.random.default_rng(17)
    found: Counter[Outcome] = Counter()
    for _ in range(rounds):
        scores = drawn(generator, prompts, seeds, right=0.8, recovery=recovery, differ=differ)
        found[judged(paired(*scores, binary=True)).outcome] += 1
    return found


def judged(pairs: Paired, margin: float = 0.98) -> Verdict:
    return verdict(ratio_interval(pairs), pairs, margin)


def test_a_harmful_rule_is_caught() -> None:
    found = outcomes(300, recovery=0.88, differ=0.15)
    assert found[Outcome.NOT_SUPPORTED] >= 0.97 * 300
    assert not found[Outcome.SUPPORTED]


def test_a_rule_without_harm_is_not_accused() -> None:
    found = outcomes(300, recovery=1.0, differ=0.1)
    assert found[Outcome.NOT_SUPPORTED] <= 0.025 * 300
    assert found[Outcome.SUPPORTED] >= 0.2 * 300


def test_a_rule_at_the_margin_is_seldom_supported() -> None:
    found = outcomes(300, recovery=0.98, differ=0.05)
    assert found[Outcome.SUPPORTED] <= 0.04 * 300  # 2.5 % and chance
    assert found[Outcome.NOT_SUPPORTED] <= 0.05 * 300


@pytest.mark.parametrize("seeds", [1, 20])
def test_five_perfect_prompts_settle_nothing(seeds: int) -> None:
    found = judged(table(5, 0, 0, seeds=seeds))
    assert found.outcome is Outcome.TOO_FEW
    assert found.needed == 190
    assert found.sentence == "recovery ≥ 98 %: too few prompts, need about 190"


def test_sentences_name_the_margin() -> None:
    assert judged(table(400, 0, 0)).sentence == "recovery ≥ 98 %: supported"
    assert judged(table(100, 0, 60), 0.955).sentence == "recovery ≥ 95.5 %: not supported"


def test_a_baseline_that_is_never_right_settles_nothing() -> None:
    found = judged(table(0, 3, 0, 9))
    assert (found.outcome, found.needed) == (Outcome.TOO_FEW, None)
    assert "the baseline scored nothing" in found.sentence


def test_at_the_margin_no_number_is_named() -> None:
    found = judged(table(97, 1, 2))  # 98 of 99 is 0.9899; at 98/99 exactly nothing would do
    assert found.needed
    assert prompts_needed(table(97, 1, 2), 98 / 99) is None


def test_more_prompts_are_needed_than_there_are() -> None:
    assert (prompts_needed(table(3, 1, 0), 0.98) or 0) > 4


@pytest.mark.parametrize("cells", [(76, 4, 4, 16), (74, 3, 7, 16)])  # recovery 1 and 0.9625
def test_the_number_needed_answers_in_four_of_five(cells: tuple[int, int, int, int]) -> None:
    needed, generator = prompts_needed(table(*cells), 0.98) or 0, np.random.default_rng(6)
    studies = [judged(table(*generator.multinomial(needed, np.array(cells) / 100))) for _ in range(200)]
    right = Outcome.SUPPORTED if cells[1] == cells[2] else Outcome.NOT_SUPPORTED
    assert 0.74 <= np.mean([study.outcome is right for study in studies]) <= 0.9  # ± 0.06 by chance
