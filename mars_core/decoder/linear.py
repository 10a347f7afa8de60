"""Linear layers for the few rows of a decoding step.

On a CPU a weight is packed once into oneDNN's layout; the plain product would pack it again for every call. The sums of a packed
product do not depend on its number of rows, if that is even. The output layer of a half-precision model gives float32 logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

_SMALL = 2**26  # bytes: smaller embedding tables are copied for speed


class PlainLinear(nn.Linear):
    """A linear layer that shares an existing weight and bias."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        freeze(self)

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        """The product and ``to``."""
        return to + self.forward(input)


class PackedLinear(PlainLinear):
    """A linear layer whose weight [out, in] is stored in ``packed`` only: ``weight`` has its shape and dtype but no data. The product
    has the dtype ``computed``, by default the weight's."""

    packed: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None, computed: torch.dtype | None = None) -> None:
        computed = computed or weight.dtype
        super().__init__(torch.empty_like(weight, device="meta"), None if bias is None else bias.to(computed))
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(computed))
        self.register_buffer("packed", packed, persistent=False)
        self.computed = computed
        self._product: Any = torch.ops.mkldnn._linear_pointwise.default
        self._product_and_sum: Any = torch.ops.mkldnn._linear_pointwise.binary
        freeze(self)

    def forward(self, input: Tensor) -> Tensor:
        product: Tensor = self._product(input.to(self.computed), self.packed, self.bias, "none", [], "")
        return product

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        """In one operation; input and ``to`` have the dtype ``computed``."""
        total: Tensor = self._product_and_sum(input, to, self.packed, self.bias, "add")
        return total


class TiedLinear(PlainLinear):
    """An output layer whose weight is the embedding table: oneDNN uses it unpacked, so that it is in memory once. 6 rows of a table of
    150,000 × 1,024 took 63 ms, from a packed copy 66 ms, and in the plain product 144 ms."""

    def forward(self, input: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise.default(input, self.weight, self.bias, "none", [], "")
        return product


class WideLinear(PlainLinear):
    """An output layer in half precision whose sums are not rounded to it: float32 logits. CUDA only."""

    def forward(self, input: Tensor) -> Tensor:
        rows = torch.mm(input.reshape(-1, self.in_features), self.weight.t(), out_dtype=torch.float32)
        if self.bias is not None:
            rows += self.bias
        return rows.view(*input.shape[:-1], self.out_features)


def freeze(module: nn.Module) -> None:
    """Makes weights and parts plain attributes: attribute lookup in ``nn.Module`` costs as much as a small operation."""
    vars(module).update({**module._parameters, **module._buffers, **module._modules})


def is_plain(layer: object) -> TypeGuard[nn.Linear]:
    """Whether a layer is a plain floating-point product: not a subclass, without a replaced forward method (hooks of
    accelerate, quantised activations) or a quantised weight."""
    return (
        type(layer) is nn.Linear
        and "forward" not in vars(layer)
        and type(layer.weight.data) is Tensor
        and layer.weight.is_floating_point()
    )


def joined(layers: Sequence[nn.Linear]) -> PlainLinear:
    """One layer that computes what ``layers``, all of them plain, compute of the same input, side by side."""
    weight = torch.cat([layer.weight.detach() for layer in layers]) if len(layers) > 1 else layers[0].weight.detach()
    biases = [layer.bias for layer in layers]
    bias = None
    if any(each is not None for each in biases):
        zeros = [layer.weight.new_zeros(layer.out_features) for layer in layers]
        bias = torch.cat([none if each is None else each.detach() for each, none in zip(biases, zeros, strict=True)])
    return (PackedLinear if packable(weight) else PlainLinear)(weight, bias)


def pack(model: nn.Module) -> None:
    """Packs every plain linear layer of ``model``, in place, where that is faster; weights shared with a large
    embedding table are not copied."""
    tables = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if is_plain(layer) and packable(layer.weight):
                tied = id(layer.weight) in tables and layer.weight.nbytes > _SMALL
                setattr(parent, name, (TiedLinear if tied else PackedLinear)(layer.weight, layer.bias))


def float32_output(layer: nn.Module) -> nn.Module:
    """The output layer of a model, replaced where it is plain so that its logits are float32."""
    if not is_plain(layer) or layer.weight.dtype in (torch.float32, torch.float64):
        return layer
    if layer.weight.device.type == "cuda":
        return WideLinear(layer.weight.detach(), layer.bias)
    return PackedLinear(layer.weight, layer.bias, torch.float32) if _can_pack() else layer


def packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not _can_pack():
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def _can_pack() -> bool:
    """Whether oneDNN is part of this build of torch (not of those for macOS on ARM)."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
