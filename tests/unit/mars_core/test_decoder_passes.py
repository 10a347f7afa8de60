"""What passes hand to the kernels, and what they keep of them: masks that every kernel takes, logits that do not depend on what else is
read, logits that are not rounded to half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder import CacheSize, ModelCache, open_cache, prepare
from mars_core.decoder.linear import WideLinear
from mars_core.verification import ancestors
from tests.checkpoints import random_ids, tiny_model

ROWS = 16
SHAPE = CacheSize(80, ROWS, ROWS, whole=True)
HALF = torch.bfloat16


def built(kind: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    model = tiny_model(kind, seed=3, dtype=dtype)
    prepare(model)
    return model


@torch.no_grad()
@pytest.mark.parametrize(
    "cache_size", [CacheSize(60, 20), CacheSize(60, 20, whole=True), CacheSize(60, 20, ROWS, whole=True)], ids=str
)
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen3", "phi3", "gemma3", "gpt2"])
def test_masks_are_contiguous_and_aligned(kind: str, cache_size: CacheSize, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of CUDA check the address of a mask: one that begins amid another's memory stops a run there."""
    model, masks = built(kind), []
    attention = nn.functional.scaled_dot_product_attention

    def watched(*args: Any, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        if attn_mask is not None:
            masks.append(attn_mask)
        return attention(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", watched)
    cache, ids = open_cache(model, cache_size), random_ids(40)
    for at in (0, 5, 17, 33):
        cache.read(ids[:7], at)
        for count in (1, 3, 6):
            cache.forward(ids[:count], at)
        if kind != "gpt2":
            cache.forward_tree(ids[:4], at, torch.tensor([0, 1, 1, 2]), ancestors(torch.tensor([0, 0, 2]), 2))
    assert len(masks) > 8
    assert all(mask.is_contiguous() and mask.data_ptr() % 64 == 0 for mask in masks)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral", "gemma3"])
def test_in_passes_of_one_shape_a_rows_logits_are_bitwise_the_same(kind: str) -> None:
    """Tokens one by one, six at once, forty at once (in several passes), and with other tokens in the rows behind them."""
    cache, ids = open_cache(built(kind, HALF), SHAPE), random_ids(60)
    cache.read(ids[:10])

    def read(count: int, behind: Callable[[int], Tensor] = lambda _: ids[:0]) -> Tensor:
        chunks = [ids[at : at + count] for at in range(10, 60, count)]
        starts = range(10, 60, count)
        rows = [
            cache.forward(torch.cat([chunk, behind(at)]), at)[: len(chunk)]
            for at, chunk in zip(starts, chunks, strict=True)
        ]
        return torch.cat(rows)

    alone = read(1)
    assert torch.equal(read(6), alone)
    assert torch.equal(read(40), alone)
    assert torch.equal(read(2, lambda at: random_ids(9, seed=at)), alone)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "gemma3", "gpt2"])
def test_logits_of_half_precision_are_not_rounded_to_it(kind: str) -> None:
    """Whether the output layer stands behind fast layers or transformers' modules, soft-capped or tied to the input's."""
    cache = open_cache(built(kind, HALF), CacheSize(40, 8))
    logits = cache.forward(random_ids(12), 0)
    assert logits.dtype == torch.float32
    assert (logits != logits.to(HALF).float()).float().mean() > 0.5


@pytest.mark.parametrize("bias", [True, False])
def test_the_output_layer_of_cuda_gives_sums_that_were_never_rounded(
    bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = torch.mm

    def mm(left: Tensor, right: Tensor, *, out_dtype: torch.dtype) -> Tensor:
        assert left.dtype == right.dtype == HALF
        return product(left.to(out_dtype), right.to(out_dtype))

    monkeypatch.setattr(torch, "mm", mm)  # only CUDA has the option
    plain, x = nn.Linear(32, 7, bias=bias, dtype=HALF), torch.randn(2, 3, 32, dtype=HALF)
    with torch.no_grad():
        found = WideLinear(plain.weight, plain.bias)(x)
        torch.testing.assert_close(found, plain.float()(x.float()), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_a_prompt_of_one_token_leaves_nothing_to_read(kind: str) -> None:
    model, ids = built(kind), random_ids(3)
    for cache_size in (CacheSize(40, 8), CacheSize(40, ROWS, ROWS, whole=True)):
        cache: ModelCache = open_cache(model, cache_size, taps=(1,))
        assert cache.read(ids[:0]).shape == cache.reread(ids[:0], 0).shape == (0, 32)
        assert torch.isfinite(cache.forward(ids, 0)).all()
