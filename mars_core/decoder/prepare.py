"""Prepares a loaded model for decoding, in place: fast layers where they compute the same, packed
weights where they are faster.

Afterwards the model is for inference only; transformers' call works, for batches of any
size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder.layer import FastLayer, Heads, core_of, norm_of
from mars_core.decoder.linear import QuantisedLinear, float32_output, is_plain, pack, rounding

_FAMILY = {
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Phi3ForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
}
_TRIED = 7  # tokens
# Largest relative root mean square difference of a layer's contribution to the residual stream.
_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.05}


@torch.no_grad()
def prepare(model: PreTrainedModel, *, fast: bool = True) -> None:
    """Replaces the layers of the Llama family, unless one of them is quantised, is on another
    device or computes something else than its replacement. The output layer of a half-precision
    model then returns float32 logits."""
    decoder: Any = model.get_decoder()
    on_one_device = len({weight.device for weight in model.parameters()}) == 1
    rounded = rounding(model)
    if fast and type(model).__name__ in _FAMILY and on_one_device:
        parts = [
            part
            for layer in decoder.layers
            for block in (layer.self_attn, layer.mlp)
            for part in block.named_children()
        ]
        products = [part for name, part in parts if name.endswith("_proj")]
        if all(is_plain(part) or isinstance(part, QuantisedLinear) for part in products):
            _replace_layers(decoder, rounded)
    output = model.get_output_embeddings()
    if output is not None and (wide := float32_output(output, rounded)) is not output:
        model.set_output_embeddings(wide)
    pack(model)


def _layer_of(layer: Any, at: int) -> FastLayer:
    attention, config = layer.self_attn, layer.self_attn.config
    heads = Heads(
        config.num_attention_heads,
        config.num_key_value_heads,
        attention.head_dim,
        attention.scaling,
    )
    core = core_of(attention, layer.mlp, layer.post_attention_layernorm, heads)
    return FastLayer(norm_of(layer.input_layernorm), core, at)


def _replace_layers(decoder: Any, rounded: torch.dtype) -> None:
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
    rotary = decoder.rotary_emb(hidden, positions)
    options = dict(attention_mask=mask, position_ids=positions, position_embeddings=rotary)
    for at, layer in enumerate(decoder.layers):
        stand_in = _layer_of(layer, at)
        wanted: Tensor = layer(hidden, **options)
        computed = stand_in.forward(hidden, **options)
        added = wanted.double() - hidden.double()
        error = (computed.double() - wanted.double()).square().mean().sqrt()
        if not error <= _TOLERANCE[rounded] * added.square().mean().sqrt():
            return
        decoder.layers[at] = stand_in
    decoder.norm = norm_of(decoder.norm)
