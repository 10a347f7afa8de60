"""The sizes of random pairs are the public ones. The peers write what plain greedy decoding writes, whatever the draft."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from bench.common.peers import assisted, greedy, looped
from bench.cuda.coupled import coupled_models
from bench.cuda.shapes import PUBLIC, TINY_SHAPES, ModelShape
from mars_core.models import CATALOG

CPU = torch.device("cpu")
UNTIED = "meta-llama/Llama-3.1-8B-Instruct"
PROMPT, NEW = (5, 700, 41, 9, 1200), 24  # of the peers


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
