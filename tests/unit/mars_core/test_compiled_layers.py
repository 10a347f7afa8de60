"""Layers in C: near the plain ones, and bit for bit the same whatever is read beside a token."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mars_core.decoder import (
    ANY_SHAPE,
    KERNELS,
    CacheSize,
    is_fast,
    open_cache,
    prepare,
)
from mars_core.decoder.fast_cache import FastCache
from mars_core.decoder.packing import quantise
from mars_core.decoder.quantised.layers import CompiledLayers
from mars_core.decoder.quantised.library import lacks_products
from mars_core.decoder.quantised.weights import in_eight_bits
from mars_core.eagle3.cache import prepare_head
from mars_core.models.checks.exactness import find_shapes
from tests import eagle_heads
from tests.checkpoints import random_ids, tiny_model
from tests.kernel_passes import cache_of_kernels, head_outputs

pytestmark = pytest.mark.skipif(bool(lacks_products()), reason=lacks_products())
# Every input of a product is rounded to 16 bits, so that a last place of difference before it
# is one of 2⁻¹⁵ after it; the logits have a standard deviation of about 1.
NEAR = 2e-3
WIDTHS: dict[str, Any] = {
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"head_dim": 48}),
    "biases": ("llama", {"head_dim": 32, "attention_bias": True, "mlp_bias": True}),
    "qwen2": ("qwen2", {"hidden_size": 128}),
    "qwen3": ("qwen3", {"head_dim": 80}),
    "window": ("mistral", {"head_dim": 32, "sliding_window": 9}),
    "gemma3": ("gemma3", {"head_dim": 128, "sliding_window": 9}),
    "partial": ("phi3", {"hidden_size": 128, "rope_parameters": PARTIAL, "pad_token_id": 0}),
}


def fast_model(kind: str, *, queries: float = 1.0, **options: Any) -> Any:
    """Return a random model with fast layers of 8 bits, and ``queries`` times as long queries."""
    model = tiny_model(kind, **WIDTHS | options)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "norm.weight")):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        if "q_proj" in name:
            parameter.mul_(queries)
    quantise(model)
    prepare(model)
    assert is_fast(model)
    return model


@torch.inference_mode()
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_is_near_that_of_plain_layers_and_a_row_is_the_same_in_every_pass(
    name: str, threads: int
) -> None:
    kind, options = KINDS[name]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        cache = cache_of_kernels(fast_model(kind, **options), NEAR)
    finally:
        torch.set_num_threads(before)
    assert isinstance(cache, FastCache) and isinstance(cache.layers.fused, CompiledLayers)
    assert cache.path == "kernels"


@torch.inference_mode()
def test_the_highest_score_may_be_far_above_the_others_and_anywhere() -> None:
    """Of 40 positions, read by queries a thousand times as long."""
    model = fast_model("llama", queries=1000.0, head_dim=48)
    ids, rows = random_ids(40), []
    for shapes in (ANY_SHAPE, KERNELS):
        cache = open_cache(model, CacheSize(60, 24, shapes))
        cache.read(ids[:20])
        rows.append(cache.forward(ids[20:], 20))
    assert (rows[0] - rows[1]).norm() < 0.05 * rows[0].norm()


@torch.inference_mode()
def test_nothing_is_written_beyond_the_cache() -> None:
    cache = open_cache(fast_model("llama", head_dim=48), CacheSize(20, 4, KERNELS))
    with pytest.raises(IndexError, match="beyond the 24 positions"):
        cache.forward(random_ids(3), 22)
    cache.forward(random_ids(3), 21)


@torch.inference_mode()
def test_a_head_of_8_bits_drafts_as_by_its_plain_layer() -> None:
    """A tree of two levels, and its path as a chain."""
    target = tiny_model("llama", **WIDTHS)
    options = {"hidden_size": 96, "intermediate_size": 96, "head_dim": 32, "qk_norm": True}
    config = eagle_heads.tiny_config(target.config, feature_layers=(0, 1, 1), **options)
    head = eagle_heads.random_head(config, target)
    prepare_head(head, quantised=True)
    hidden = torch.randn(12, 96, generator=torch.Generator().manual_seed(0))
    cache, plain, outputs = head_outputs(head, hidden)
    assert isinstance(cache.layers.fused, CompiledLayers)
    assert (plain - outputs).abs().max() < NEAR * plain.std()


@torch.inference_mode()
def test_a_weight_in_8_bits_is_the_weight_within_half_a_step() -> None:
    """Of a group of columns of zeros too."""
    weight = torch.randn(37, 96, generator=torch.Generator().manual_seed(0))
    weight[5, 32:64] = 0
    steps = weight.view(37, 3, 32).abs().amax(-1) / 127
    error = (in_eight_bits(weight).at(torch.arange(37)) - weight).view(37, 3, 32).abs().amax(-1)
    assert (error <= 0.6 * steps).all()  # a scale is rounded to float16


@torch.inference_mode()
def test_a_model_is_read_by_them_where_they_compute_all_of_its_layers() -> None:
    text = random_ids(120)
    model = fast_model("llama", head_dim=48)
    found = find_shapes(model, text, kernels=True)
    assert found.shapes == KERNELS and not found.inexact
    assert find_shapes(model, text).shapes != KERNELS  # which were not asked for
    for kind, options in (("gemma2", {"head_dim": 32}), ("llama", {"head_dim": 24})):
        other = fast_model(kind, **options)
        found = find_shapes(other, text, kernels=True)
        assert found.shapes != KERNELS and not found.inexact
        assert open_cache(other, CacheSize(60, 24, KERNELS)).path == "fast layers"
