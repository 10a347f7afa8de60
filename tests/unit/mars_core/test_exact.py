"""Exact runs: in a dtype that rounds, strict writes the target's own text, token for token; and a run goes on as it would have gone on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

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


@pytest.fixture(scope="module")
def written(pair: Pair) -> Callable[[DrafterConfig, float], Trace]:
    """Runs of the pair; what is asked for again is not decoded again."""
    return cache(lambda drafter, temperature: decoded(pair, config_for(pair, drafter, temperature)))


def logprobs(trace: Trace) -> list[float]:
    return [token.logprob for token in trace.tokens]


def drafters(pair: Pair) -> list[DrafterConfig]:
    return [each for each in CHAINS.values() if each.kind != "eagle3" or pair.head is not None]


def test_strict_with_chains_is_the_target_alone(pair: Pair, written: Callable[[DrafterConfig, float], Trace]) -> None:
    """Unfilled drafts, first and last steps included; without exactness some of these texts differ."""
    for temperature in (0.0, 1.0):
        alone = written(NONE, temperature)
        assert alone.config.passes == PassShape(16, 256)
        for drafter in drafters(pair) if temperature else [CHAINS["draft model"]]:
            trace = written(drafter, temperature)
            assert trace.token_ids == alone.token_ids
            assert trace.config.passes == alone.config.passes
            assert logprobs(trace) == logprobs(alone)
    inexact = replace(pair, exact=False)
    loose = decoded(inexact, config_for(inexact, CHAINS["draft model"], 1.0))
    assert loose.config.passes is None
    assert logprobs(loose) != logprobs(alone), "else nothing is tested"


def test_a_run_goes_on_from_its_own_tokens_as_it_went_on(
    pair: Pair, written: Callable[[DrafterConfig, float], Trace]
) -> None:
    for temperature, drafter in ((0.0, CHAINS["draft model"]), *((1.0, each) for each in (NONE, *drafters(pair)))):
        whole = written(drafter, temperature)
        for given in (1, 33) if drafter.kind == "none" else (33,):  # rows of the first pass, of the third
            rest = replace(whole.config, prefix=whole.token_ids[:given], max_new_tokens=NEW - given)
            trace = decoded(pair, rest)
            assert trace.token_ids == whole.token_ids[given:]
            assert logprobs(trace) == logprobs(whole)[given:]


def test_trees_and_sampled_drafts_repeat_themselves_with_rows_of_their_own(pair: Pair) -> None:
    for drafter, rows in ((DrafterConfig("model", k=4, mode=DraftMode.SAMPLED), 16), (TREE, 32)):
        if drafter is not TREE or pair.head is not None:
            one, other = (decoded(pair, config_for(pair, drafter, 1.0, new=20)) for _ in range(2))
            assert one.token_ids == other.token_ids
            assert one.config.passes == PassShape(rows, 256)


def test_the_shape_follows_from_the_length_and_is_that_of_the_run_that_is_continued(pair: Pair) -> None:
    session = Session(replace(pair, context=4096))
    shapes = {new: session.check(config_for(pair, NONE, 0.0, new=new)).config.passes for new in (1, 160, 180, 1000)}
    assert shapes == {new: PassShape(16, long) for new, long in ((1, 256), (160, 256), (180, 512), (1000, 1280))}
    wide = replace(config_for(pair, CHAINS["draft model"], 0.0), passes=PassShape(16, 512))
    assert session.check(wide).config.passes == PassShape(16, 512)
    if pair.head is not None:
        assert session.check(replace(wide, drafter=TREE)).config.passes == PassShape(32, 256)
    small = replace(wide, passes=PassShape(16, 64))
    assert session.check(small).config.passes == PassShape(16, 256)
    assert Session(replace(pair, exact=False)).check(wide).config.passes is None


@pytest.mark.slow
def test_the_bundled_pair_is_exact_in_bfloat16_on_its_own_prompt() -> None:
    bundled = ModelPool(device="cpu", dtype="bfloat16").get(CATALOG[0])
    assert bundled.exact
    prompt = PromptConfig(CATALOG[0].prompts[0])
    for temperature in (0.0, 1.0):
        alone, *others = (
            decoded(bundled, replace(config_for(bundled, drafter, temperature, new=20), prompt=prompt))
            for drafter in (NONE, *CHAINS.values())
        )
        assert all(other.token_ids == alone.token_ids for other in others)
