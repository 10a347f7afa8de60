"""The probe accepts a cache that can be rolled back and refuses one that only looks so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, DynamicCache, LlamaForCausalLM

from mars_core.models.errors import ModelError
from mars_core.models.probe import _random_ids, probe
from tests.checkpoints import KINDS, WINDOW, tiny_checkpoint, tiny_config


class Remembering(LlamaForCausalLM):
    """A Llama with a state of its own, which no cache knows of: it cannot be rolled back."""

    seen = 0.0

    def forward(self, input_ids: Tensor, use_cache: bool = True, **options: Any) -> Any:  # type: ignore[override]
        output = super().forward(input_ids=input_ids, use_cache=use_cache, **options)
        if use_cache:
            self.seen += float(input_ids.sum())
            output.logits += torch.sin(torch.arange(output.logits.shape[-1]) + self.seen)
        return output


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_promised_architectures_pass(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    probe(AutoModelForCausalLM.from_pretrained(tiny_checkpoint(kind, tmp_path), dtype=dtype).eval(), kind)


def test_narrow_windows_are_run_past_their_end() -> None:
    model = AutoModelForCausalLM.from_config(tiny_config("mistral"))
    assert _random_ids(model).shape[1] > 2 * WINDOW


def test_a_context_of_a_few_tokens_is_not_exceeded() -> None:
    model = AutoModelForCausalLM.from_config(tiny_config("gpt2", n_positions=4)).eval()
    assert _random_ids(model).shape == (1, 4)
    probe(model, "short")


def test_a_hidden_state_is_found_out() -> None:
    with pytest.raises(ModelError, match=r"forgetful .* after a rollback its logits are off by"):
        probe(Remembering(tiny_config("llama")).eval(), "forgetful")


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gemma3", "gpt2"])
def test_a_cache_that_does_not_forget_is_found_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(self: DynamicCache, count: int) -> None:
        for layer in self.layers:
            assert layer.keys is not None
            layer.keys = layer.keys[..., -count:, :]  # the right length, but the wrong end is dropped

    monkeypatch.setattr(DynamicCache, "crop", keep)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(tiny_config(kind)).eval()
    with pytest.raises(ModelError, match="cannot be used for speculative decoding"):
        probe(model, kind)


def test_logits_that_are_not_finite_are_refused() -> None:
    model = AutoModelForCausalLM.from_config(tiny_config("llama")).eval()
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        probe(model, "broken")
