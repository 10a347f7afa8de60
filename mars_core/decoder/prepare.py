"""Makes a loaded model fit for decoding, in place: fast layers where they compute the same, packed weights where they are of use.

Afterwards the model is for inference only, and for batches of any size; it can still be called as transformers' own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder.layer import FastLayer, Heads, Rotary, core_of, norm_of
from mars_core.decoder.linear import pack

_FAMILY = {"LlamaForCausalLM", "MistralForCausalLM", "Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
_TRIED = 7  # tokens
_TOLERANCE = {
    torch.float32: 1e-4,
    torch.float64: 1e-4,
    torch.float16: 0.02,
    torch.bfloat16: 0.1,
}  # root mean square, relative


@torch.no_grad()
def prepare(model: PreTrainedModel) -> None:
    """Replaces layers of the Llama family, unless the first one computes something else than its stand-in."""
    decoder: Any = model.get_decoder()
    if type(model).__name__ in _FAMILY and _on_one_device(model) and _agrees(decoder, _layer_of(decoder.layers[0], 0)):
        for at, layer in enumerate(decoder.layers):
            decoder.layers[at] = _layer_of(layer, at)  # one by one, so that memory holds one layer twice at most
        decoder.norm = norm_of(decoder.norm)
    pack(model)


def _on_one_device(model: PreTrainedModel) -> bool:
    return len({weight.device for weight in model.parameters()}) == 1


def _layer_of(layer: Any, at: int) -> FastLayer:
    attention = layer.self_attn
    config = attention.config
    heads = Heads(config.num_attention_heads, config.num_key_value_heads, attention.head_dim, attention.scaling)
    return FastLayer(
        norm_of(layer.input_layernorm), core_of(attention, layer.mlp, layer.post_attention_layernorm, heads), at
    )


def _agrees(decoder: Any, fast: FastLayer) -> bool:
    """Whether the first layer and its stand-in make the same of the same random hidden states."""
    layer, weight = decoder.layers[0], decoder.embed_tokens.weight
    source = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, _TRIED, weight.shape[1], generator=source).to(weight)
    positions = torch.arange(_TRIED, device=weight.device)
    mask = torch.full((_TRIED, _TRIED), torch.finfo(weight.dtype).min).triu(1).to(weight)[None, None]
    cos, sin = decoder.rotary_emb(hidden, positions[None])
    wanted: Tensor = layer(hidden, attention_mask=mask, position_ids=positions[None], position_embeddings=(cos, sin))
    found = fast.step(hidden, Rotary.of(cos, sin), mask, None)
    error = (found.double() - wanted.double()).square().mean().sqrt()
    return bool(error <= _TOLERANCE[weight.dtype] * wanted.double().square().mean().sqrt())
