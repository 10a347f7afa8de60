"""Exact runs: in a dtype that rounds, strict writes the target's own text, token for token; and a run goes on as it would have gone on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from mars_core.decoder import prepare
from mars_core.models import CATALOG, ModelPool, Pair
from mars_core.session import Session
from mars_core.types import DrafterConfig, DraftMode, PassShape, PromptConfig, RunConfig, Sampling, Trace, TreeShape
from tests import live_pairs
from tests.checkpoints import tiny_model, tiny_tokenizer
from tests.live_pairs import decoded, disturbed, headed, pair_of

NEW = 36
NONE = DrafterConfig("none")
CHAINS = {
    "draft model": DrafterConfig("model", k=5),
    "long chain": DrafterConfig("model", k=20),
    "head": DrafterConfig("eagle3", k=4),
    "n-grams": DrafterConfig("ngram", k=3),
}
TREE = DrafterConfig("eagle3", tree=TreeShape(20, 4, 3))


@pytest.fixture(scope="module", params=["llama", "qwen3", "mistral", "gemma3"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """In bfloat16, with a head where there are such; gemma3 runs over transformers' own modules."""
    target = tiny_model(request.param, seed=1, dtype=torch.bfloat16)
    pair = pair_of(target, disturbed(target, 0.05), tiny_tokenizer(), frozenset())
    pair = replace(pair, dtype=torch.bfloat16, exact=True)
    return pair if request.param == "gemma3" else headed(pair)


def config_for(pair: Pair, drafter: DrafterConfig, temperature: float, seed: int = 0, new: int = NEW) -> RunConfig:
    return live_pairs.config_for(pair, drafter, Sampling(temperature), prompt="once upon", new=new, seed=seed)


def finished(pair: Pair, *options: Any, **named: Any) -> Trace:
    return decoded(pair, config_for(pair, *options, **named))


def drafters(pair: Pair) -> list[DrafterConfig]:
    return [each for each in CHAINS.values() if each.kind != "eagle3" or pair.head is not None]


def test_strict_with_chains_is_the_target_alone(pair: Pair) -> None:
    """Unfilled drafts, first and last steps included; without exactness some of these texts differ."""
    for temperature in (0.0, 1.0):
        alone = finished(pair, NONE, temperature)
        assert alone.config.passes == PassShape(16, 256)
        for drafter in drafters(pair) if temperature else [CHAINS["draft model"]]:
            trace = finished(pair, drafter, temperature)
            assert trace.token_ids == alone.token_ids
            assert trace.config.passes == alone.config.passes
            assert all(a.logprob == b.logprob for a, b in zip(trace.tokens, alone.tokens, strict=True))
    loose = finished(replace(pair, exact=False), CHAINS["draft model"], 1.0)
    assert loose.config.passes is None
    assert [token.logprob for token in loose.tokens] != [token.logprob for token in alone.tokens], (
        "else nothing is tested"
    )


def test_a_run_goes_on_from_its_own_tokens_as_it_went_on(pair: Pair) -> None:
    for temperature, drafter in ((0.0, CHAINS["draft model"]), *((1.0, each) for each in (NONE, *drafters(pair)))):
        whole = finished(pair, drafter, temperature, 3, NEW)
        for given in (1, 33) if drafter.kind == "none" else (33,):  # rows of the first pass, of the third
            rest = replace(whole.config, prefix=whole.token_ids[:given], max_new_tokens=NEW - given)
            trace = decoded(pair, rest)
            assert trace.token_ids == whole.token_ids[given:]
            assert [token.logprob for token in trace.tokens] == [token.logprob for token in whole.tokens[given:]]


def test_a_tree_repeats_itself_with_rows_of_its_own(pair: Pair) -> None:
    if pair.head is None:
        return
    one, other = (finished(pair, TREE, 1.0) for _ in range(2))
    assert one.token_ids == other.token_ids
    assert one.config.passes == PassShape(32, 256)


def test_the_shape_follows_from_the_length_and_is_that_of_the_run_that_is_continued(pair: Pair) -> None:
    session = Session(replace(pair, context=4096))
    shapes = {new: session.check(config_for(pair, NONE, 0.0, new=new)).config.passes for new in (1, 160, 180, 1000)}
    assert shapes == {
        1: PassShape(16, 256),
        160: PassShape(16, 256),
        180: PassShape(16, 512),
        1000: PassShape(16, 1280),
    }
    wide = replace(config_for(pair, CHAINS["draft model"], 0.0), passes=PassShape(16, 512))
    assert session.check(wide).config.passes == PassShape(16, 512)
    if pair.head is not None:
        assert session.check(replace(wide, drafter=TREE)).config.passes == PassShape(32, 256)
    small = replace(wide, passes=PassShape(16, 64))
    assert session.check(small).config.passes == PassShape(16, 256)
    assert Session(replace(pair, exact=False)).check(wide).config.passes is None


def test_sampled_drafts_repeat_themselves(pair: Pair) -> None:
    sampled = DrafterConfig("model", k=4, mode=DraftMode.SAMPLED)
    one, other = (finished(pair, sampled, 1.0) for _ in range(2))
    assert one.token_ids == other.token_ids


@pytest.mark.slow
def test_the_bundled_pair_is_exact_in_bfloat16_on_its_own_prompts() -> None:
    bundled = ModelPool(device="cpu", dtype="bfloat16").get(CATALOG[0])
    assert bundled.exact
    for text in CATALOG[0].prompts[:1]:
        for temperature in (0.0, 1.0):
            alone, *others = (
                decoded(bundled, replace(config_for(bundled, drafter, temperature, new=32), prompt=PromptConfig(text)))
                for drafter in (NONE, *CHAINS.values())
            )
            assert all(other.token_ids == alone.token_ids for other in others)


def test_prepare_leaves_logits_in_float32() -> None:
    """What the last product computes is not rounded to the weights' dtype."""
    model = tiny_model("llama", dtype=torch.bfloat16)
    prepare(model)
    logits = model(torch.tensor([[5, 6, 7]])).logits
    assert logits.dtype is torch.float32
    assert (logits != logits.bfloat16().float()).any()
