"""Linear layers for the few rows of a decoding step.

On a CPU in float32 a weight is packed once in the layout that oneDNN multiplies from; the plain product would pack it anew for
every call. Elsewhere the layers stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_product = torch.ops.mkldnn._linear_pointwise.default
_product_and_sum = torch.ops.mkldnn._linear_pointwise.binary


class PackedLinear(nn.Linear):
    """A linear layer whose weight [out, in] lives in ``packed`` only: ``weight`` has its shape and no numbers."""

    packed: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(torch.empty_like(weight, device="meta"), requires_grad=False)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        self.register_buffer("packed", torch.ops.mkldnn._reorder_linear_weight(weight.detach()), persistent=False)

        settle(self)

    def forward(self, input: Tensor) -> Tensor:
        product: Tensor = _product(input, self.packed, self.bias, "none", [], "")
        return product

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        """The product and ``to``, in one operation."""
        total: Tensor = _product_and_sum(input, to, self.packed, self.bias, "add")
        return total


class PlainLinear(nn.Linear):
    """A linear layer around a weight and a bias that exist already."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        settle(self)

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        return to + self.forward(input)


FastLinear = PackedLinear | PlainLinear


def settle(module: nn.Module) -> None:
    """Makes weights and parts plain attributes: to find them the way of ``nn.Module`` costs as much as a small operation."""
    vars(module).update({**module._parameters, **module._buffers, **module._modules})


def joined(layers: Sequence[nn.Linear]) -> FastLinear:
    """One layer that computes what ``layers`` compute of the same input, side by side."""
    weight = torch.cat([layer.weight.detach() for layer in layers]) if len(layers) > 1 else layers[0].weight.detach()
    biases = [layer.bias for layer in layers]
    bias = None
    if any(each is not None for each in biases):
        zeros = [layer.weight.new_zeros(layer.out_features) for layer in layers]
        bias = torch.cat([none if each is None else each.detach() for each, none in zip(biases, zeros, strict=True)])
    return (PackedLinear if packable(weight) else PlainLinear)(weight, bias)


def pack(model: nn.Module) -> None:
    """Packs every plain linear layer of ``model``, in place, where that is of use."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear and packable(layer.weight):
                setattr(parent, name, PackedLinear(layer.weight, layer.bias))


def packable(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
