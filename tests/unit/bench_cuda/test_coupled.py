"""Random pairs: how often their drafts are right follows from the noise, their sizes are the public
ones. The peers write what plain greedy decoding writes, whatever the draft."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from bench.common.peers import assisted, greedy, looped
from bench.cuda.coupled import coupled_models, coupled_pair, prompts
from bench.cuda.shapes import PUBLIC, TINY_SHAPES, ModelShape
from mars_core.models import CATALOG
from mars_core.types import DrafterConfig, Sampling
from tests.live_pairs import config_for, decoded

CPU = torch.device("cpu")
UNTIED = "meta-llama/Llama-3.1-8B-Instruct"
LOW, MIDDLE, HIGH = 0.03, 0.1, 0.2
PROMPT, NEW = (5, 700, 41, 9, 1200), 24  # of the peers


def tau(key: str, kind: str, noise: float, temperature: float) -> float:
    pair, sampling = (
        coupled_pair(TINY_SHAPES[key], noise, CPU, torch.float32),
        Sampling(temperature),
    )
    traces = [
        decoded(
            pair,
            config_for(pair, DrafterConfig(kind, k=5), sampling, prompt=prompt, new=60, seed=seed),
        )
        for seed, prompt in enumerate(prompts(3))
    ]
    return sum(len(trace.tokens) for trace in traces) / sum(len(trace.steps) for trace in traces)


@pytest.mark.parametrize(
    ("key", "kind", "temperature"),
    [
        ("llama", "model", 0.0),
        ("llama", "eagle3", 1.0),
        ("qwen", "model", 1.0),
        ("qwen", "eagle3", 0.0),
    ],
)
def test_tau_falls_from_almost_six_to_almost_one_as_noise_grows(
    key: str, kind: str, temperature: float
) -> None:
    low, middle, high = (tau(key, kind, noise, temperature) for noise in (LOW, MIDDLE, HIGH))
    assert low > 4.5
    assert 3 < middle < 5
    assert high < 2
    assert low > middle > high


def test_the_peers_copy_computes_what_the_prepared_target_computes() -> None:
    trio = TINY_SHAPES["llama"]
    ids = torch.arange(3, 20)[None]
    with torch.inference_mode():
        ours = coupled_pair(trio, MIDDLE, CPU, torch.float32).target(input_ids=ids).logits
        theirs = coupled_models(trio, MIDDLE, CPU, torch.float32)[0](input_ids=ids).logits
    assert torch.allclose(ours, theirs, atol=1e-3)
    assert theirs.amax(-1).mean() == pytest.approx(24, rel=0.3)


@pytest.mark.parametrize(
    "shape", [*PUBLIC["llama"][:2], *PUBLIC["qwen"][:2]], ids=lambda shape: shape.source
)
def test_sizes_are_the_public_ones(shape: ModelShape) -> None:
    counts = {
        ref.name: count
        for spec in CATALOG
        for ref, count in (
            (spec.target, spec.target_parameters),
            (spec.draft, spec.draft_parameters),
        )
        if ref is not None
    }
    build: Any = AutoModelForCausalLM.from_config
    config = shape.config()
    config.tie_word_embeddings = shape.source not in UNTIED
    with torch.device("meta"):
        assert build(config).num_parameters() == counts[shape.source]


@pytest.mark.parametrize(("key", "noise"), [("llama", 0.0), ("qwen", 0.1), ("llama", 0.3)])
def test_peers_write_the_greedy_text(key: str, noise: float) -> None:
    target, draft = coupled_models(TINY_SHAPES[key], noise, CPU, torch.float32)
    wanted = greedy(target)(PROMPT, NEW).ids
    assert len(wanted) == NEW
    plain = looped(target, draft, 5)(PROMPT, NEW)
    assert (
        plain.ids
        == looped(target, draft, 1)(PROMPT, NEW).ids
        == assisted(target, draft, 5)(PROMPT, NEW).ids
        == wanted
    )
    assert noise or plain.steps == NEW // 6, "a perfect draft: a round for every K + 1 tokens"
