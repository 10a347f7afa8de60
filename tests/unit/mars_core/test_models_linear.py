"""The faster linear layer computes what it replaces, for every number of rows, and shares its weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mars_core.models.linear import FEW, FewRowsLinear, read_weights_once


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, FEW, FEW + 1, 40])
@pytest.mark.parametrize("batch", [(), (1,), (2, 1)])
def test_product_is_that_of_the_plain_layer(bias: bool, rows: int, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(48, 33, bias=bias)
    x = torch.randn(*batch, rows, 48)
    with torch.inference_mode():
        result = FewRowsLinear(plain)(x)
        assert result.shape == (*batch, rows, 33)
        assert torch.allclose(result, plain(x), atol=1e-5)


def test_only_plain_float32_layers_are_replaced_and_parameters_stay_shared() -> None:
    class Odd(nn.Linear):
        """A subclass may compute something else."""

    model = nn.Sequential(nn.Linear(4, 4), Odd(4, 4), nn.Linear(4, 4).to(torch.bfloat16), nn.LayerNorm(4))
    weights = [parameter for parameter in model.parameters()]
    read_weights_once(model)
    assert [type(layer) for layer in model] == [FewRowsLinear, Odd, nn.Linear, nn.LayerNorm]
    assert all(left is right for left, right in zip(weights, model.parameters(), strict=True))
