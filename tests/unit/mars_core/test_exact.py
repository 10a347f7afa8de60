"""Exact runs: in a dtype that rounds, strict writes the target's text, token for token; and a
run goes on as it would have gone on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from mars_core.decoder import ANY_SHAPE, CacheSize, PassShapes, is_fast, open_cache
from mars_core.decoder.fast_cache import FastCache
from mars_core.decoder.modules_cache import ModulesCache
from mars_core.decoder.positions import PassLayout
from mars_core.models import BUNDLED_PAIR, ModelPool, Pair
from mars_core.models.checks.exactness import find_shapes, real_text
from mars_core.sampling import row_sums
from mars_core.types import (
    DrafterConfig,
    PromptConfig,
    RunConfig,
    Sampling,
    Trace,
    TreeShape,
)
from tests import live_pairs
from tests.checkpoints import HEADED, tiny_model, tiny_tokenizer
from tests.live_pairs import decoded, disturbed, headed, pair_of, searched

NEW = 24
NONE = DrafterConfig("none")
CHAINS = {
    "draft model": DrafterConfig("model", k=5),
    "long chain": DrafterConfig("model", k=20),
    "head": DrafterConfig("eagle3", k=4),
    "n-grams": DrafterConfig("ngram", k=3),
}
TREE = DrafterConfig("eagle3", tree=TreeShape(20, 4, 3))


# Passes of every architecture and dtype are compared bit for bit in test_decoder.py.
MODELS = ["llama", "mistral", "gpt2", "gemma2 float32"]


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest) -> Pair:
    """In bfloat16 but for the last ones, with a head where there are such; gpt2 runs over
    transformers' modules."""
    kind, dtype = (
        request.param.split()[0],
        torch.float32 if "float32" in request.param else torch.bfloat16,
    )
    target = tiny_model(kind, seed=1, dtype=dtype, max_position_embeddings=640)
    pair = replace(
        pair_of(target, disturbed(target, 0.05), tiny_tokenizer(), frozenset()), dtype=dtype
    )
    return searched(headed(pair) if kind in HEADED else pair)


def config_for(
    pair: Pair, drafter: DrafterConfig, temperature: float, seed: int = 0, new: int = NEW
) -> RunConfig:
    """Widths of passes grow while the text is written, also beyond the 256 at which kernels change
    their order."""
    prompt = "once upon a time " * 22  # 374 tokens
    return live_pairs.config_for(
        pair, drafter, Sampling(temperature), prompt=prompt, new=new, seed=seed
    )


def traced(pair: Pair, *options: Any, **named: Any) -> Trace:
    return decoded(pair, config_for(pair, *options, **named))


@pytest.fixture(scope="module")
def written(pair: Pair) -> Callable[[DrafterConfig, float], Trace]:
    """Runs of the pair; what is requested again is not decoded again."""
    return cache(lambda drafter, temperature: traced(pair, drafter, temperature))


def numbers(trace: Trace) -> list[tuple[float, ...]]:
    """Every token, and what the trace says of its position, bit for bit; q and what depends on the
    draft are not among them."""
    return [
        (each.id, each.z1, each.z2, each.entropy, each.logprob, each.p, each.edge)
        for each in trace.tokens
    ]


def drafters(pair: Pair) -> list[DrafterConfig]:
    return [each for each in CHAINS.values() if each.kind != "eagle3" or pair.head is not None]


def test_strict_with_chains_is_the_target_alone(
    pair: Pair, written: Callable[[DrafterConfig, float], Trace]
) -> None:
    """Unfilled drafts, first and last steps included; with passes of any shape some of these
    numbers differ."""
    assert pair.exact, pair.inexact
    for temperature in (0.0, 1.0):
        alone = written(NONE, temperature)
        assert len(alone.prompt_ids) < 384 < len(alone.prompt_ids) + NEW
        assert alone.config.environment["exact"] == str(pair.shapes)
        for drafter in drafters(pair) if temperature else [CHAINS["draft model"]]:
            trace = written(drafter, temperature)
            assert numbers(trace) == numbers(alone)
    loose = replace(pair, shapes=ANY_SHAPE, inexact="a test")
    trace = traced(loose, CHAINS["draft model"], 1.0)
    assert trace.config.environment["exact"] == "no: a test"
    if pair.dtype is torch.float32:
        assert numbers(trace) != numbers(alone), "else nothing is tested"


def test_a_run_continues_from_its_tokens_as_it_continued(
    pair: Pair, written: Callable[[DrafterConfig, float], Trace]
) -> None:
    for temperature, drafter in (
        (0.0, CHAINS["draft model"]),
        *((1.0, each) for each in (NONE, *drafters(pair))),
    ):
        original = written(drafter, temperature)
        for length in (1, 20) if drafter.kind == "none" else (20,):
            rest = replace(
                original.config, prefix=original.token_ids[:length], max_new_tokens=NEW - length
            )
            trace = decoded(pair, rest)
            assert numbers(trace) == numbers(original)[length:]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (
            lambda shape: shape[0],
            PassShapes(16, 16, 128),
        ),  # as where activations of all rows are quantised together
        (lambda shape: shape[1], ANY_SHAPE),
    ],
    ids=["rows", "start"],
)
def test_what_depends_on_its_neighbours_is_detected(
    pair: Pair,
    broken: Callable[[tuple[int, int]], float],
    expected: PassShapes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = FastCache if is_fast(pair.target) else ModulesCache
    computed = kind._pass

    def passed(self: Any, ids: Tensor, layout: PassLayout, logits: int) -> tuple[Tensor, Tensor]:
        rows, features = computed(self, ids, layout, logits)
        return rows * (1 + 1e-6 * broken((ids.shape[1], int(layout.start)))), features

    monkeypatch.setattr(kind, "_pass", passed)
    shapes, inexact, margins = find_shapes(pair.target, real_text(pair.tokenizer, pair.vocabulary))
    assert shapes == expected
    plain = open_cache(pair.target, CacheSize(120, 120)).forward(
        real_text(pair.tokenizer, pair.vocabulary), 0
    )
    assert len(margins) == 127  # with the target's continuation
    assert torch.allclose(
        torch.tensor(margins[:119]), plain[:-1].topk(2).values, rtol=0.05, atol=0.05
    )
    assert bool(inexact) is (expected == ANY_SHAPE)
    assert not inexact or re.fullmatch(
        r"its logits near position \d+ depend on .* in the same pass", inexact
    )


def test_the_sum_of_a_single_row_is_that_of_the_row_among_others() -> None:
    """Several threads would divide it among them."""
    values, threads = torch.rand(6, 49_152), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(torch.cat([row_sums(row) for row in values.split(1)]), row_sums(values))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_bundled_pair_is_exact_on_its_prompt(dtype: str) -> None:
    bundled = ModelPool(device="cpu", dtype=dtype).get(BUNDLED_PAIR)
    assert bundled.exact, bundled.inexact
    prompt = PromptConfig(BUNDLED_PAIR.prompts[0])
    for temperature in (0.0, 1.0):
        alone, *others = (
            decoded(
                bundled, replace(config_for(bundled, drafter, temperature, new=20), prompt=prompt)
            )
            for drafter in (NONE, *CHAINS.values())
        )
        assert all(numbers(each) == numbers(alone) for each in others)
