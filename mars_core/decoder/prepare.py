"""Prepares a loaded model for decoding, in place: fast layers where they compute the same, packed
weights where they are faster.

Afterwards the model is for inference only; transformers' call works, for batches of any
size.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder.architectures import Architecture, architecture, number
from mars_core.decoder.attention import Heads
from mars_core.decoder.layer import FastLayer, core_of, norm_of, rotary_of
from mars_core.decoder.linear import QuantisedLinear
from mars_core.decoder.packing import float32_output, is_plain, pack, rounding

_TRIED = 7  # tokens
_WINDOWED = "sliding_attention"  # a kind of layers; those of a model without kinds are all of it
# Largest relative root mean square difference of a layer's contribution to the residual stream.
_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.05}


@torch.no_grad()
def prepare(model: PreTrainedModel, *, fast: bool = True) -> None:
    """Replaces the layers of known architectures, unless one of them is quantised or computes
    something else than its replacement. The output layer of a half-precision
    model then returns float32 logits."""
    decoder: Any = model.get_decoder()
    rounded = rounding(model)
    if fast and (row := architecture(model)):
        parts = [
            part
            for layer in decoder.layers
            for block in (layer.self_attn, layer.mlp)
            for part in block.named_children()
        ]
        products = [part for name, part in parts if name.endswith("_proj")]
        if all(is_plain(part) or isinstance(part, QuantisedLinear) for part in products):
            _replace_layers(decoder, row, rounded)
    output = model.get_output_embeddings()
    if output is not None and (wide := float32_output(output, rounded)) is not output:
        model.set_output_embeddings(wide)
    pack(model)


def _layer_of(layer: Any, at: int, row: Architecture) -> FastLayer:
    attention, config = layer.self_attn, layer.self_attn.config
    heads = Heads(
        config.num_attention_heads,
        config.num_key_value_heads,
        attention.head_dim,
        attention.scaling,
        number(config, row.score_cap),
    )
    first, mixed, inner, last = (
        norm_of(getattr(layer, name), row.norm_offset) if name else None for name in row.norms
    )
    scale = number(config, row.residual_scale)
    scaled = None if scale is None else partial(torch.mul, other=scale)
    after = mixed or scaled, last or scaled
    core = core_of(attention, layer.mlp, inner, heads, row, after)
    kinds = getattr(config, "layer_types", None)
    kind = kinds[at] if kinds else _WINDOWED
    turns = not row.rotary_layers or getattr(config, row.rotary_layers)[at]
    rotary = (kind if row.rotary_by_kind else "") if turns else None
    return FastLayer(first, core, at, windowed=kind == _WINDOWED, rotary=rotary)


def _replace_layers(decoder: Any, row: Architecture, rounded: torch.dtype) -> None:
    """Replaces layer by layer, so that at most one layer is in memory twice. Stops at a layer whose
    output on random hidden states differs from its replacement's; the model then computes the
    same, with transformers' layers."""
    weight = decoder.embed_tokens.weight
    hidden = torch.randn(1, _TRIED, weight.shape[1], generator=torch.Generator().manual_seed(0)).to(
        weight
    )
    positions = torch.arange(_TRIED, device=weight.device)[None]
    mask = (
        torch.full((_TRIED, _TRIED), torch.finfo(weight.dtype).min).triu(1).to(weight)[None, None]
    )
    for at, layer in enumerate(decoder.layers):
        stand_in = _layer_of(layer, at, row)
        options: dict[str, Any] = dict(
            attention_mask=mask,
            position_ids=positions,
            position_embeddings=rotary_of(decoder.rotary_emb, hidden, positions, stand_in.rotary),
        )
        wanted: Tensor = layer(hidden, **options)
        computed = stand_in.forward(hidden, **options)
        added = wanted.double() - hidden.double()
        error = (computed.double() - wanted.double()).square().mean().sqrt()
        if not error <= _TOLERANCE[rounded] * added.square().mean().sqrt():
            return
        decoder.layers[at] = stand_in
    decoder.norm = norm_of(decoder.norm, row.norm_offset)
