"""Going on from prefix tokens: text and spans are those of the whole, stop strings end in new tokens.
That the rest of a run is the same: test_live.py."""

from __future__ import annotations

from functools import partial

import pytest

from mars_core.models import Pair
from mars_core.telemetry import first_divergence
from mars_core.types import (
    DrafterConfig,
    PrefixToken,
    PromptConfig,
    Sampling,
    StopReason,
    Trace,
)
from tests.checkpoints import tiny_model
from tests.live_pairs import pair_of, random_pair, traced
from tests.unit.mars_core.byte_level import BYTES, byte_level_tokenizer

NEW = 16
MODEL = DrafterConfig("model", k=3)


@pytest.fixture(scope="module")
def free() -> Pair:
    return random_pair(noise=0.05, eos=frozenset())


def spans(trace: Trace) -> list[PrefixToken]:
    """Every output token with its characters, given or new."""
    return [
        *trace.given,
        *(PrefixToken(token.id, token.piece, token.start, token.end) for token in trace.tokens),
    ]


def test_a_stop_string_must_end_in_a_new_token(free: Pair) -> None:
    original = traced(free, MODEL, new=NEW)
    prefix = original.token_ids[:8]
    inside = original.text[2:5]
    across = original.text[original.tokens[8].start - 2 : original.tokens[8].end]
    assert len(across) > 2
    assert inside not in original.text[3:], (
        "the stop string of this test stands in the given part only"
    )
    free_text, stopped = (
        traced(free, MODEL, prompt=PromptConfig("once", stop=(stop,)), prefix=prefix, new=NEW - 8)
        for stop in (inside, across)
    )
    assert (free_text.stop_reason, free_text.text) == (StopReason.LENGTH, original.text)
    assert stopped.stop_reason is StopReason.STOP_STRING
    assert len(stopped.tokens) == 1


@pytest.fixture(scope="module")
def bytes_pair() -> Pair:
    """A pair whose tokens are bytes."""
    return pair_of(
        tiny_model("llama", vocab_size=BYTES + 1), None, byte_level_tokenizer(), frozenset()
    )


@pytest.mark.parametrize("seed", range(2))
def test_text_and_spans_are_the_same_wherever_bytes_are_cut(bytes_pair: Pair, seed: int) -> None:
    """Noise in bytes is full of characters that are never finished, and of some that are."""
    written = partial(traced, bytes_pair, DrafterConfig("ngram", k=3), Sampling(2.0), seed=seed)
    original = written(new=NEW)
    assert any(token.start == token.end for token in original.tokens)
    for n in range(NEW):
        rest = written(prefix=original.token_ids[:n], new=NEW - n)
        assert (rest.text, spans(rest)) == (original.text, spans(original))
        assert [token.position for token in rest.tokens] == list(range(n, NEW))
        assert rest.summary.new_tokens == NEW - n and rest.config.prefix == original.token_ids[:n]
        assert rest.prompt_ids == original.prompt_ids and first_divergence(original, rest) is None
