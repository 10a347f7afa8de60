"""What all measurements share."""

from __future__ import annotations

from functools import partial
from itertools import islice, product

from bench.common.measure import WARM_UP_PROMPTS, Decoded, TimedSample, digest, interleaved
from mars_core.types import PromptConfig


def test_every_method_decodes_every_prompt_in_every_round() -> None:
    calls: list[tuple[str, str, int]] = []

    def method(name: str, prompt: PromptConfig, seed: int) -> Decoded:
        calls.append((name, prompt.text, seed))
        return Decoded((1, 2, len(prompt.text)), 2)

    prompts = [PromptConfig(text) for text in ("x", "yy", "zzz")]
    samples = interleaved({name: partial(method, name) for name in "abcd"}, prompts, 2)
    first = samples["a"][0]
    assert first == TimedSample(0, 0, first.seconds, 3, 2, digest([1, 2, 1])) and first.seconds > 0
    rounds = iter(calls[4 * WARM_UP_PROMPTS :])
    orders = set()
    for turn, prompt in product(range(2), prompts):
        names, *asked = zip(*islice(rounds, 4), strict=True)
        assert asked == [(prompt.text,) * 4, (turn,) * 4] and sorted(names) == [*"abcd"]
        orders.add(names)
    assert len(orders) > 1
