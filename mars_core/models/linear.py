"""Linear layers for a few rows on a CPU: the weight as the left factor of the product, read once in its own order.

A step of speculative decoding passes 1 to K + 1 rows. There ``W @ xᵀ`` is faster than ``x @ Wᵀ``, which packs the weight anew
each time or, for one row, runs on one thread. Same weights, same product, no copy; only the order of rounding differs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FEW = 16  # rows


class FewRowsLinear(nn.Linear):
    """An ``nn.Linear`` that shares another's parameters. Input [..., rows, in], output [..., rows, out]."""

    def __init__(self, source: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = source.in_features, source.out_features
        self.weight, self.bias = source.weight, source.bias

    def forward(self, input: Tensor) -> Tensor:
        rows = input.reshape(-1, self.in_features)
        count = len(rows)
        if count > FEW:
            return nn.functional.linear(input, self.weight, self.bias)
        right = torch.cat((rows, rows)).t() if count == 1 else rows.t()  # a single column would run on one thread
        plain = self.bias is None
        product = torch.mm(self.weight, right) if plain else torch.addmm(self.bias[:, None], self.weight, right)
        return product[:, :count].t().reshape(*input.shape[:-1], self.out_features)


def read_weights_once(model: nn.Module) -> None:
    """Gives every plain linear layer of a float32 model on the CPU its faster form, in place."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear and layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32:
                setattr(parent, name, FewRowsLinear(layer))
