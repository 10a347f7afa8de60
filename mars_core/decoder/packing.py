"""Chooses the layer that a plain linear layer becomes: which weights may be packed, joined or held
in float16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder.linear import (
    HalfLinear,
    PackedLinear,
    PlainLinear,
    QuantisedLinear,
    TiedLinear,
    WideLinear,
)
from mars_core.decoder.quantised.weights import Int4, Weight, in_eight_bits

_SMALL = 2**26  # bytes: smaller embedding tables are copied for speed


class _Beside(Weight):
    """A weight that is not quantised, beside others that are."""

    def __init__(self, layer: PlainLinear) -> None:
        self.rows, self.columns, self._layer = layer.out_features, layer.in_features, layer

    def multiply(self, x: Tensor, into: Tensor) -> None:
        into.copy_(self._layer.forward(x))


def is_plain(layer: object) -> TypeGuard[nn.Linear]:
    """Return whether a layer is a plain product: not a subclass, without a replaced forward method
    (hooks of accelerate, quantised activations) or a quantised weight."""
    return (
        type(layer) is nn.Linear
        and "forward" not in vars(layer)
        and type(layer.weight.data) is Tensor
        and layer.weight.is_floating_point()
    )


def joined(layers: Sequence[nn.Linear]) -> PlainLinear:
    """Return one layer that computes what ``layers``, all of them plain, compute of the same input,
    side by side."""
    bias = None
    if biases := [layer.bias for layer in layers if layer.bias is not None]:
        zeros = biases[0].new_zeros
        bias = torch.cat(
            [
                zeros(each.out_features) if each.bias is None else each.bias.detach()
                for each in layers
            ]
        )
    if any(isinstance(layer, QuantisedLinear) for layer in layers):
        parts = list[Weight]()
        for layer in layers:
            if isinstance(layer, QuantisedLinear):
                parts += layer.weights
            else:
                parts.append(_Beside(_layer(layer.weight.detach(), None)))
        return QuantisedLinear(parts, bias)
    weight = (
        torch.cat([layer.weight.detach() for layer in layers])
        if len(layers) > 1
        else layers[0].weight.detach()
    )
    return _layer(weight, bias)


def _layer(weight: Tensor, bias: Tensor | None, *, tied: bool = False) -> PlainLinear:
    """Return the fastest layer with this weight. ``tied``: it is a large embedding table too."""
    if fits_half(weight):
        return HalfLinear(weight, bias)
    if tied:
        return TiedLinear(weight, bias)
    return (PackedLinear if packable(weight) else PlainLinear)(weight, bias)


def pack(model: nn.Module) -> None:
    """Packs every plain linear layer of ``model``, in place, where that is faster; weights shared
    with a large embedding table are not copied."""
    tables = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if is_plain(layer) and packable(layer.weight):
                tied = id(layer.weight) in tables and layer.weight.nbytes > _SMALL
                setattr(parent, name, _layer(layer.weight, layer.bias, tied=tied))


def quantise(model: nn.Module) -> None:
    """Rounds every plain linear layer of ``model`` to 8 bits, in place, where its width allows
    it."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if is_plain(layer) and layer.in_features % 32 == 0:
                setattr(parent, name, QuantisedLinear([in_eight_bits(layer.weight)], layer.bias))


def float32_output(layer: nn.Module, rounded: torch.dtype) -> nn.Module:
    """Return the output layer of a model with products in the dtype ``rounded``, replaced where it
    is plain so that its logits are float32."""
    if not is_plain(layer) or rounded in (torch.float32, torch.float64):
        return layer
    if layer.weight.device.type == "cuda":
        return WideLinear(layer.weight.detach(), layer.bias)
    if halvable(layer.weight):
        return HalfLinear(layer.weight, layer.bias)
    return PackedLinear(layer.weight, layer.bias, torch.float32) if _can_pack() else layer


def halvable(weight: Tensor) -> bool:
    """Return whether a HalfLinear can hold ``weight``: on an x86 processor, within the range of
    float16."""
    on_x86 = weight.device.type == "cpu" and torch.backends.quantized.engine in ("x86", "fbgemm")
    return on_x86 and bool(weight.abs().max() <= torch.finfo(torch.float16).max)


def fits_half(weight: Tensor) -> bool:
    """Return whether float16 holds a float32 weight, as it does of a file in bfloat16: all but its
    smallest numbers exactly, and these up to half of float16's smallest step."""
    if weight.dtype != torch.float32 or not halvable(weight):
        return False
    return bool((weight.half().float() - weight).abs().max() <= 2**-25)


def rounding(model: PreTrainedModel) -> torch.dtype:
    """Return the least precise dtype of the model's products, other than quantised ones of other
    libraries."""
    weights = (
        weight
        for layer in model.modules()
        if isinstance(layer, QuantisedLinear)
        for weight in layer.weights
    )
    return torch.bfloat16 if any(isinstance(each, Int4) for each in weights) else model.dtype


def packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not _can_pack():
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def _can_pack() -> bool:
    """Return whether oneDNN is part of this build of torch (not of those for macOS on ARM)."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
