"""The test of draws at temperature 1 on a model whose probabilities are known: its level, its power
and what it can be asked."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from evaluation.lossless.sampled import sampled_findings
from evaluation.lossless.values import Finding, LosslessVerdict
from evaluation.served import client
from evaluation.served.answer import Answer
from evaluation.served.choice import Position, TokenKey

WORDS = ("a", "b", "c", "d", "e", "f")
PROMPTS = ("one", "two", "three", "four")
Choose = Callable[
    [random.Random, dict[str, float], bool], str
]  # with whether the token is the first one


@cache
def probabilities(text: str) -> dict[str, float]:
    """Of the next token: one of several distributions, by the text so far."""
    source = random.Random(text)
    weights = [source.random() ** 3 + 0.01 for _ in WORDS]
    return {word: weight / sum(weights) for word, weight in zip(WORDS, weights, strict=True)}


def exactly(source: random.Random, p: dict[str, float], _first: bool) -> str:
    return source.choices(list(p), list(p.values()))[0]


def second_best(source: random.Random, p: dict[str, float], first: bool) -> str:
    """A rule that keeps the second best token wherever the best one is less than twice as
    probable."""
    best, second, *_ = sorted(p, key=lambda word: -p[word])
    return second if not first and p[second] > p[best] / 2 else exactly(source, p, first)


def garbage(source: random.Random, p: dict[str, float], first: bool) -> str:
    return exactly(source, p, first) if first else source.choice(("g", "h"))


class Server:
    """A fake Client. ``top``: how many alternatives it reports, 0 for no log probabilities
    at all; ``key``: how it identifies a token; ``repeat``: how many seeds give the same draws;
    ``nameless``: after these prompts it identifies none, as llama.cpp after emojis."""

    server = client.Server("http://stand-in")

    def __init__(
        self,
        choose: Choose = exactly,
        top: int = 6,
        key: Callable[[str], TokenKey | None] = str.encode,
        repeat: int = 1,
        nameless: tuple[str, ...] = (),
    ) -> None:
        self.choose, self.top, self.key, self.repeat = choose, top, key, repeat
        self.nameless = nameless

    def complete(
        self,
        prompt: str | Sequence[Any],
        *,
        max_tokens: int,
        temperature: float,
        seed: int = 0,
        **_: Any,
    ) -> Answer:
        begun = (
            prompt
            if isinstance(prompt, str)
            else prompt[0] + "".join(WORDS[id_] for id_ in prompt[1:])
        )
        source, text, positions = random.Random(f"{seed // self.repeat} {temperature}"), begun, []
        for position in range(max_tokens):
            p = probabilities(text)
            word = self.choose(source, p, position == 0 and begun in PROMPTS)
            best = sorted(p, key=lambda each: -p[each])[: self.top]
            top = tuple(Position(each, math.log(p[each]), key=self.key(each)) for each in best)
            named = None if begun.startswith(self.nameless or "-") else self.key(word)
            positions.append(Position(word, math.log(p.get(word, 1e-9)), top, named))
            text += word
        reported = tuple(positions) if self.top else None
        return Answer(text.removeprefix(begun), "length", logprobs=reported)


def verdicts(
    server: Server,
    reference: Server | None = None,
    seed: int = 0,
    draws: int = 50,
    prompts: Sequence[str] = PROMPTS,
) -> list[Finding]:
    return sampled_findings(server, reference or server, prompts, draws, seed)  # type: ignore[arg-type]


def test_a_correct_server_is_not_accused_in_fifty_repetitions() -> None:
    """At a level of 0.1 % an accusation has a probability of 5 %, at one of 5 % it would have one
    of 92 %."""
    repetitions = [
        verdicts(Server(), None, 10_000 * number, 25, PROMPTS[:2]) for number in range(50)
    ]
    assert {each.verdict for findings in repetitions for each in findings} == {
        LosslessVerdict.LOSSLESS
    }


@pytest.mark.parametrize("choose", [second_best, garbage])
@pytest.mark.parametrize("top", [6, 2])
def test_a_defect_is_detected_by_the_probabilities_of_either_server(
    choose: Choose, top: int
) -> None:
    for other in (Server(top=top), None):
        (finding,) = verdicts(Server(choose, top), other, prompts=PROMPTS[:2])
        assert finding.verdict is LosslessVerdict.NOT_LOSSLESS
        assert finding.p is not None and finding.p < 0.001
        # p is as small as the simulation can tell: no number
        assert "another distribution at the level 0.001 of 3 tests together" in finding.reason


def test_a_rare_impossible_token_is_detected() -> None:
    def rarely(source: random.Random, p: dict[str, float], first: bool) -> str:
        return "g" if not first and source.random() < 0.04 else exactly(source, p, first)

    (finding,) = verdicts(Server(rarely))
    assert (
        finding.verdict is LosslessVerdict.NOT_LOSSLESS
        and "of probability below 1e-06" in finding.reason
    )


def test_without_log_probabilities_a_reference_is_named() -> None:
    (alone,) = verdicts(Server(top=0))
    assert alone.verdict is LosslessVerdict.NOT_KNOWN and "give --reference MODEL" in alone.reason


@pytest.mark.parametrize(
    "key", [WORDS.index, lambda _: None, lambda word: None if word == "a" else word.encode()]
)
def test_only_what_both_servers_identify_alike_is_compared(
    key: Callable[[str], TokenKey | None],
) -> None:
    (finding,) = verdicts(Server(), Server(key=key))
    assert finding.verdict is LosslessVerdict.NOT_KNOWN


@pytest.mark.parametrize(
    ("choose", "verdict"),
    [(exactly, LosslessVerdict.LOSSLESS), (second_best, LosslessVerdict.NOT_LOSSLESS)],
)
def test_prompts_without_names_are_left_out_of_the_verdict(
    choose: Choose, verdict: LosslessVerdict
) -> None:
    (finding,) = verdicts(Server(choose, nameless=("two", "four")))
    assert finding.verdict is verdict
    assert "or report its log probability, after prompts 2, 4:" in finding.reason
    (finding,) = verdicts(Server(choose, nameless=("two",)))
    assert "or report its log probability, after prompt 2:" in finding.reason


def test_draws_that_are_one_draw_are_no_other_distribution() -> None:
    for repeat in (2, 10**9):
        (finding,) = verdicts(Server(repeat=repeat))
        assert (
            finding.verdict is LosslessVerdict.DUPLICATED and "to 4 of 4 prompts" in finding.reason
        ), repeat
