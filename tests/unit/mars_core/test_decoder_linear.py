"""Packed linear layers compute what they replace, for every number of rows, and keep no second copy of the weight."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from mars_core.decoder.linear import PackedLinear, PlainLinear, TiedLinear, float32_output, is_plain, joined, pack
from tests.checkpoints import tiny_config


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 5, 17, 40, 300])
@pytest.mark.parametrize("batch", [(), (1,), (2, 1)])
def test_product_is_that_of_the_plain_layer(bias: bool, rows: int, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(48, 33, bias=bias)
    x, other = torch.randn(*batch, rows, 48), torch.randn(*batch, rows, 33)
    with torch.inference_mode():
        packed = PackedLinear(plain.weight, plain.bias)
        assert packed(x).shape == (*batch, rows, 33)
        torch.testing.assert_close(packed(x), plain(x), atol=1e-5, rtol=1e-5)
        for layer in (packed, PlainLinear(plain.weight, plain.bias)):
            torch.testing.assert_close(layer.added(x, other), other + plain(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_joined_layers_stand_side_by_side_also_where_one_has_no_bias(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(8, 3, dtype=dtype), nn.Linear(8, 5, bias=False, dtype=dtype)
    both, x = joined([first, second]), torch.randn(4, 8, dtype=dtype)
    torch.testing.assert_close(both(x), torch.cat([first(x), second(x)], -1))
    assert type(both) is (PackedLinear if dtype == torch.float32 else PlainLinear)


def test_only_plain_float32_layers_are_packed_and_counts_stay() -> None:
    class Odd(nn.Linear):
        """A subclass may compute something else."""

    model = nn.Sequential(nn.Linear(4, 4), Odd(4, 4), nn.Linear(4, 4).to(torch.bfloat16), nn.LayerNorm(4))
    sizes = [(weight.shape, weight.dtype) for weight in model.parameters()]
    pack(model)
    assert [type(layer) for layer in model] == [PackedLinear, Odd, nn.Linear, nn.LayerNorm]
    assert [(weight.shape, weight.dtype) for weight in model.parameters()] == sizes
    first = model[0]
    assert isinstance(first, PackedLinear) and first.weight.is_meta, "the numbers are in memory once"


def test_layers_that_compute_something_of_their_own_are_not_plain() -> None:
    hooked, quantised = nn.Linear(4, 4), nn.Linear(4, 4)
    hooked.forward = lambda x: 2 * x  # type: ignore[method-assign]
    quantised.weight = nn.Parameter(torch.zeros(4, 4, dtype=torch.int8), requires_grad=False)
    assert [is_plain(each) for each in (nn.Linear(4, 4), hooked, quantised, nn.Identity())] == [
        True,
        False,
        False,
        False,
    ]


def test_half_precision_has_a_float32_output_layer_and_float32_keeps_its_own() -> None:
    half, full = nn.Linear(4, 3, dtype=torch.bfloat16), nn.Linear(4, 3)
    assert float32_output(half)(torch.randn(2, 4).bfloat16()).dtype == torch.float32
    assert float32_output(full) is full


@pytest.mark.parametrize("lacking", ["library", "operator"])
def test_without_onednn_layers_stay_what_they_are(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in torch for macOS."""
    if lacking == "library":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    else:
        monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(), raising=False)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(3, 4)
    wanted = model(x)
    pack(model)
    assert [type(layer) for layer in model] == [nn.Linear, nn.Linear] and torch.equal(model(x), wanted)
    assert type(joined([nn.Linear(4, 4), nn.Linear(4, 4)])) is PlainLinear
    half = nn.Linear(4, 3, dtype=torch.bfloat16)
    assert float32_output(half) is half


@pytest.mark.parametrize("large", [True, False])
def test_a_large_tied_table_is_in_memory_once(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    monkeypatch.setattr("mars_core.decoder.linear._SMALL", 0 if large else 2**26)
    config = tiny_config("llama", tie_word_embeddings=True)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval().requires_grad_(False)
    ids = torch.tensor([[5, 9, 5, 30, 7, 8]])
    wanted = model(ids).logits
    pack(model)
    table, output = model.get_input_embeddings().weight, model.get_output_embeddings()
    assert type(output) is (TiedLinear if large else PackedLinear)
    assert (output.weight.data_ptr() == table.data_ptr()) is large and hasattr(output, "packed") is not large
    torch.testing.assert_close(model(ids).logits, wanted, atol=1e-4, rtol=1e-4)
