"""Linear layers for the few rows of a decoding step.

On a CPU a weight is packed once into oneDNN's layout; the plain product would pack it again for
every call. The sums of a packed product do not depend on its number of rows, if that is even.
Quantised weights are multiplied as they are stored, and float32 weights that float16 holds in
float16. The output layer of a half-precision model gives float32 logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from mars_core.decoder.quantised.weights import Weight, empty_weight


class PlainLinear(nn.Linear):
    """A linear layer that shares an existing weight and bias."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.register_parameter(
            "bias", None if bias is None else nn.Parameter(bias, requires_grad=False)
        )
        freeze(self)

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        """Return the product and ``to``, which is overwritten; in one operation without a bias."""
        to.view(-1, self.out_features).addmm_(input.reshape(-1, self.in_features), self.weight.t())
        return to if self.bias is None else to.add_(self.bias)


class PackedLinear(PlainLinear):
    """A linear layer whose weight [out, in] is stored in ``packed`` only: ``weight`` has its shape
    and dtype but no data. The product has the dtype ``computed``, by default the weight's."""

    packed: Tensor

    def __init__(
        self, weight: Tensor, bias: Tensor | None, computed: torch.dtype | None = None
    ) -> None:
        computed = computed or weight.dtype
        super().__init__(
            torch.empty_like(weight, device="meta"), None if bias is None else bias.to(computed)
        )
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(computed))
        self.register_buffer("packed", packed, persistent=False)
        self.computed = computed
        self._product: Any = torch.ops.mkldnn._linear_pointwise.default
        self._product_and_sum: Any = torch.ops.mkldnn._linear_pointwise.binary
        freeze(self)

    def forward(self, input: Tensor) -> Tensor:
        product: Tensor = self._product(
            input.to(self.computed), self.packed, self.bias, "none", [], ""
        )
        return product

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        """Add in one operation; input and ``to`` have the dtype ``computed``."""
        total: Tensor = self._product_and_sum(input, to, self.packed, self.bias, "add")
        return total


class TiedLinear(PlainLinear):
    """An output layer whose weight is the embedding table: oneDNN uses it unpacked, so that it is
    in memory once. 6 rows of a table of 150,000 × 1,024 took 63 ms, from a packed copy 66 ms, and
    in the plain product 144 ms."""

    def forward(self, input: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise.default(
            input, self.weight, self.bias, "none", [], ""
        )
        return product


class WideLinear(PlainLinear):
    """An output layer in half precision whose sums are not rounded to it: float32 logits. CUDA
    only."""

    def forward(self, input: Tensor) -> Tensor:
        rows = torch.mm(
            input.reshape(-1, self.in_features), self.weight.t(), out_dtype=torch.float32
        )
        if self.bias is not None:
            rows += self.bias
        return rows.view(*input.shape[:-1], self.out_features)


class HalfLinear(PlainLinear):
    """A linear layer with its weight in float16, and input, sums and product in float32 (FBGEMM):
    where reading the weight takes the time, four times as fast as in float32. A row's product does
    not depend on the rows beside it."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(
            torch.empty_like(weight, device="meta"), None if bias is None else bias.float()
        )
        self._product = _half_product(weight.detach().float().contiguous(), self.bias)
        self._row_step = _half_row_step()
        freeze(self)

    def forward(self, input: Tensor) -> Tensor:
        rows = input.float().reshape(-1, self.in_features)
        padding = -len(rows) % self._row_step
        if padding:
            rows = nn.functional.pad(rows, (0, 0, 0, padding))
        product = self._product(rows)
        return product[: len(rows) - padding].view(*input.shape[:-1], self.out_features)

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        """Return the product and ``to``."""
        return to + self.forward(input)


def _half_product(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """Return the product of rows [n, in] with ``weight`` [out, in], which is copied in float16."""
    packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)
    return lambda rows: torch.ops.quantized.linear_dynamic_fp16.default(rows, packed)


@cache
def _half_row_step() -> int:
    """Return the step of the numbers of rows on which FBGEMM's sums do not depend: with AVX-512
    any, with AVX2 of 3 (its kernels of one and of two rows sum in another order). 1 if there is
    none."""
    generator = torch.Generator().manual_seed(0)
    rows, weight = (torch.randn(count, 96, generator=generator) for count in (126, 16))
    product = _half_product(weight)
    for step in (1, 2, 3, 6):
        if all(torch.equal(product(rows[:n]), product(rows)[:n]) for n in range(step, 126, step)):
            return step
    return 1


class QuantisedLinear(PlainLinear):
    """A linear layer of weights that a file has in few bits, one below the other. Input and output
    are float32. A row's product does not depend on the rows beside it."""

    def __init__(self, weights: Sequence[Weight], bias: Tensor | None) -> None:
        rows = sum(each.rows for each in weights)
        super().__init__(empty_weight(rows, weights[0].columns), bias)
        self.weights: tuple[Weight, ...] = tuple(weights)
        freeze(self)

    def forward(self, input: Tensor) -> Tensor:
        rows = input.reshape(-1, self.in_features).float().contiguous()
        product, start = rows.new_empty(len(rows), self.out_features), 0
        for weight in self.weights:
            weight.multiply(rows, product[:, start : start + weight.rows])
            start += weight.rows
        if self.bias is not None:
            product += self.bias
        return product.view(*input.shape[:-1], self.out_features)

    def added(self, input: Tensor, to: Tensor) -> Tensor:
        """Return the product and ``to``."""
        return self.forward(input).add_(to)


def freeze(module: nn.Module) -> None:
    """Makes weights and parts plain attributes: attribute lookup in ``nn.Module`` costs as much as
    a small operation."""
    vars(module).update({**module._parameters, **module._buffers, **module._modules})
