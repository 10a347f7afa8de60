"""The engine writes the tokens of the page-long reference."""

from __future__ import annotations

import pytest

from mars_core.models import Pair
from mars_core.reference import decode
from mars_core.types import DrafterConfig, Sampling
from tests.live_pairs import config_for, decoded, random_pair


@pytest.fixture(scope="module")
def pair() -> Pair:
    return random_pair("llama", noise=1.0)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize(("rule", "theta"), [("strict", 1.0), ("mars", 0.1)])
@pytest.mark.parametrize("k", [1, 4])
def test_the_engine_writes_the_text_of_the_reference(
    pair: Pair, rule: str, theta: float, temperature: float, k: int
) -> None:
    relaxed = 0
    assert pair.draft is not None
    for seed, prompt in ((1, "twice"), (2, "A b c")):
        parameters = {"theta": theta} if rule == "mars" else {}
        config = config_for(
            pair,
            DrafterConfig("model", k=k),
            Sampling(temperature),
            prompt=prompt,
            rule=rule,
            new=30,
            seed=seed,
            **parameters,
        )
        trace = decoded(pair, config)
        text = decode(
            pair.target,
            pair.draft,
            trace.prompt_ids,
            30,
            k=k,
            theta=theta,
            temperature=temperature,
            seed=seed,
            ends=pair.eos_ids,
        )
        assert list(trace.token_ids) == text
        relaxed += trace.summary.relaxed
    assert (relaxed > 0) is (rule == "mars")
