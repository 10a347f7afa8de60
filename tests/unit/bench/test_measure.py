"""Ratios are paired by prompt and round, and counted as by hand."""

from __future__ import annotations

import pytest

from bench.common.measure import WARM_UP_PROMPTS, Decoded, Sample, digest, interleaved, paired
from mars_core.types import PromptConfig
from tests.unit.bench.documents import sample

FAST = [sample(0, 0, 1.0), sample(1, 0, 2.0, tokens=8, steps=2), sample(0, 1, 4.0, digest="b")]
SLOW = [
    sample(0, 1, 6.0, steps=12),
    sample(1, 0, 3.0, tokens=6, steps=6),
    sample(0, 0, 2.0, steps=12),
]  # in another order


def test_ratios_are_of_the_same_prompt_and_round() -> None:
    samples = {"fast": FAST, "slow": SLOW}
    assert paired(samples, "fast", "slow") == {0: [2.0, 1.5], 1: [2.0]}
    assert paired(samples, "fast", "slow", "tau") == {0: [3.0, 3.0], 1: [4.0]}
    assert paired(samples, "fast", "slow", "pace") == {0: [pytest.approx(2 / 3), pytest.approx(1 / 2)], 1: [0.5]}


def test_ratios_need_both_runs() -> None:
    with pytest.raises(ValueError, match="runs of other"):
        paired({"fast": FAST}, "fast", "other")
    with pytest.raises(ValueError, match="fast and slow on the same prompts"):
        paired({"fast": FAST, "slow": SLOW[:2]}, "fast", "slow")


def test_every_method_decodes_every_prompt_in_every_round() -> None:
    calls: list[tuple[str, str, int]] = []

    def method(name: str, prompt: PromptConfig, seed: int) -> Decoded:
        calls.append((name, prompt.text, seed))
        return Decoded((1, 2, len(prompt.text)), 2)

    names = ("a", "b", "c", "d")
    prompts = [PromptConfig(text) for text in ("x", "yy", "zzz")]
    methods = {name: lambda prompt, seed, name=name: method(name, prompt, seed) for name in names}
    samples = interleaved(methods, prompts, 2)
    asked = {(prompt, turn) for prompt in range(3) for turn in range(2)}
    assert {name: {each[:2] for each in own} for name, own in samples.items()} == dict.fromkeys(names, asked)
    first = samples["a"][0]
    assert first == Sample(0, 0, first.seconds, 3, 2, digest([1, 2, 1])) and first.seconds > 0
    timed = calls[len(names) * WARM_UP_PROMPTS :]
    blocks = [timed[at : at + len(names)] for at in range(0, len(timed), len(names))]
    assert [block[0][1:] for block in blocks] == [(prompt.text, turn) for turn in range(2) for prompt in prompts]
    assert all(sorted(name for name, *_ in block) == list(names) for block in blocks)
    assert len({tuple(name for name, *_ in block) for block in blocks}) > 1
