"""What has no fast layers or no packed weights here is run over the library's own: quantised layers, torch without oneDNN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mars_core.decoder import is_fast
from mars_core.models import ModelPool, Pair, custom_pair, loading
from mars_core.types import DrafterConfig, Sampling
from tests.checkpoints import tiny_checkpoint
from tests.live_pairs import config_for, decoded


class RoundedLinear(nn.Linear):
    """A quantised layer as bitsandbytes and FP8 have them: a subclass, its weight in whole numbers."""

    scale: Tensor

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=False)
        self.register_buffer("scale", plain.weight.detach().abs().amax(1, keepdim=True) / 127)
        self.weight = nn.Parameter((plain.weight.detach() / self.scale).round().to(torch.int8), requires_grad=False)

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight.to(input.dtype) * self.scale.to(input.dtype))


class PackedWords(nn.Module):
    """A quantised layer as GPTQ and AWQ have them: no ``weight``."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.register_buffer("qweight", (plain.weight.detach() * 64).round().to(torch.int32))

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.get_buffer("qweight").to(input.dtype) / 64)


@pytest.mark.parametrize(
    ("quantised", "kind"), [(RoundedLinear, "llama"), (PackedWords, "mistral"), (RoundedLinear, "qwen3")]
)
def test_models_with_quantised_layers_are_run_over_the_librarys_own(
    quantised: type[Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One projection is enough. The text of strict is that of the target alone."""
    read = loading._read

    def planted(*args: Any) -> Any:
        model: Any = read(*args)
        model.model.layers[1].mlp.down_proj = quantised(model.model.layers[1].mlp.down_proj)
        return model

    monkeypatch.setattr(loading, "_read", planted)
    pair = ModelPool(device="cpu").get(custom_pair(str(tiny_checkpoint(kind, tmp_path))))
    assert not is_fast(pair.target)
    for temperature in (0.0, 1.0):
        assert text(pair, "ngram", temperature) == text(pair, "none", temperature)


def text(pair: Pair, drafter: str, temperature: float) -> tuple[int, ...]:
    config = config_for(pair, DrafterConfig(drafter, k=4), Sampling(temperature), prompt="ab ab ab ab ", new=24)
    return decoded(pair, config).token_ids


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_pair_is_loaded_without_onednn(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in torch for macOS."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    folder = str(tiny_checkpoint("llama", tmp_path))
    pair = ModelPool(device="cpu", dtype=dtype).get(custom_pair(folder, folder))
    assert is_fast(pair.target) and len(text(pair, "model", 1.0)) > 0


@pytest.mark.parametrize(
    ("stored", "bits"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}, 8),
        ({"quant_method": "gptq", "bits": 4}, 4),
        ({"quant_method": "fp8"}, 32),
    ],
)
def test_memory_is_planned_for_the_weights_as_they_are_kept(stored: Any, bits: int, tmp_path: Path) -> None:
    """A checkpoint in 4 bits that fits is not refused for what it would take in full; embeddings are kept in full."""
    folder = tiny_checkpoint("llama", tmp_path, hidden_size=256, intermediate_size=1024)
    plain = loading.plan(custom_pair(str(folder)), lambda _message: None).target
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": stored}))
    found, wanted = loading.plan(custom_pair(str(folder)), lambda _message: None).target, plain.bytes(torch.float32)
    tables = 2 * 256 * config["vocab_size"] / plain.parameters
    share = tables + (1 - tables) * bits / 32
    assert found.bytes(torch.float32) == pytest.approx(share * wanted, rel=0.01)
