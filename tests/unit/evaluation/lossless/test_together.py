"""Many answers after the same beginnings: a wrong block rule and a wrong residual are found, what is right
passes, and the stated power is true. The stand-ins draft with another model than they verify with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evaluation.lossless.draws import Draws, fit_p
from evaluation.lossless.law import FOUND
from evaluation.lossless.sampled import LEVEL
from evaluation.lossless.together import BEGINNINGS, beginnings, found, together
from evaluation.lossless.values import Finding, LosslessVerdict
from tests.unit.evaluation.lossless.drafting import (
    WORDS,
    Drafting,
    Verify,
    block,
    law,
    strict,
    target_residual,
    wrong_block,
)

PROMPTS = np.random.default_rng(0).integers(0, WORDS, (10, 3)).tolist()
GOOD, BAD = LosslessVerdict.LOSSLESS, LosslessVerdict.NOT_LOSSLESS


def repeated(verify: Verify, repeats: int, seed: int = 0) -> Finding:
    server: Any = Drafting(verify)
    answers = [server.complete(each, max_tokens=64, temperature=0.0) for each in PROMPTS]
    return together(server, server, PROMPTS, answers, repeats, seed)


@pytest.mark.parametrize("verify", [strict, block])
def test_what_is_right_is_not_accused(verify: Verify) -> None:
    """At a level of 0.001 an accusation in 8 has a probability of 0.8 %."""
    findings = [repeated(verify, 40, 10_000 * number) for number in range(8)]
    assert {each.verdict for each in findings} == {GOOD}
    assert all("have the expected joint distribution, p " in each.reason for each in findings)


@pytest.mark.parametrize("verify", [target_residual, wrong_block])
def test_a_wrong_residual_and_a_wrong_block_rule_are_found(verify: Verify) -> None:
    finding = repeated(verify, 400)
    assert finding.verdict is BAD and finding.p is not None and finding.p < LEVEL
    assert "400 answers after each of 4 beginnings" in finding.reason
    assert "wrong block rule or residual" in finding.reason


def test_the_stated_deviation_is_found_as_often_as_stated() -> None:
    """A share of the probability of every token goes from one half of the tokens to the other."""
    source = np.random.default_rng(1)
    p = np.array([0.2, 0.3, 0.25, 0.15, 0.1])
    share = found(12 * (len(p) - 1), 12 * 200)
    moved = p * (1 + np.array([1, 1, -1, -1, -1]) * 2 * share)
    wrong = [
        fit_p([Draws(source.multinomial(200, moved), p) for _ in range(12)], seed, LEVEL)
        for seed in range(20)
    ]
    assert 0.04 < share < 0.1
    assert sum(p < LEVEL for p in wrong) >= (FOUND - 0.2) * len(wrong)


@pytest.mark.parametrize("reported", [True, False])
def test_what_is_repeated_begins_surely_and_goes_on_unsurely(reported: bool) -> None:
    """Also where the log probabilities of accepted drafts are not reported, as by llama.cpp."""
    server: Any = Drafting(strict)
    answers = [server.complete(each, max_tokens=64, temperature=0.0) for each in PROMPTS]
    if not reported:
        answers = [
            replace(each, logprobs=tuple(at._replace(logprob=math.nan) for at in each.logprobs))
            for each in answers
        ]
    begun: Sequence[Any] = beginnings(server, PROMPTS, answers, 0)
    assert len(begun) == BEGINNINGS
    for ids in begun:
        first, later = law(tuple(ids)), law((*ids, int(law(tuple(ids)).argmax())))
        assert first.max() > 0.8 > later.max()


@pytest.mark.parametrize("shown", [{"token_ids": None}, {"logprobs": None}])
def test_a_server_that_tells_too_little_is_not_tested(shown: dict[str, None]) -> None:
    server: Any = Drafting(strict)
    answers = [
        replace(server.complete(each, max_tokens=64, temperature=0.0), **shown) for each in PROMPTS
    ]
    if "token_ids" in shown:  # nor by the log probabilities
        answers = [
            replace(each, logprobs=[at._replace(key=None) for at in each.logprobs])
            for each in answers
        ]
    finding = together(server, server, PROMPTS, answers, 20, 0)
    assert finding.verdict is LosslessVerdict.NOT_TESTED and not finding.power
