"""The head, as decoding runs it, computes what the papers' code computes: compared with the published equations, written a second time.

``Straight`` below shares nothing with mars_core.eagle3: it takes the tensors and the JSON of a checkpoint and plain operations, one
position at a time (EAGLE ``cnets.py``; speculators for the norms that EAGLE's own heads do not have).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from mars_core.decoder import CacheSize
from mars_core.eagle3.cache import HeadCache, prepare_head
from mars_core.eagle3.checkpoint import load_head
from mars_core.eagle3.config import read_config
from tests.checkpoints import tiny_checkpoint
from tests.eagle_heads import FAMILIES, LLAMA3, Family, random_head, save_head, tiny_config

PREFIX = 9  # entries with the target's own features


class Straight:
    """One draft, step by step: keys and values are lists, one [heads, head_dim] an entry."""

    def __init__(self, folder: Path, embedding: Tensor, family: Family) -> None:
        raw = json.loads((folder / "config.json").read_text())
        self.raw, self.c = raw, raw.get("transformer_layer_config", raw)
        self.w = {"embed_tokens.weight": embedding, **load_file(folder / "model.safetensors")}
        self.place = {"eagle": "midlayer.", "speculators": "layers.0."}[family]
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def layer(self, name: str) -> Tensor:
        return self.w[f"{self.place}{name}.weight"]

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.pow(2).mean() + self.c["rms_norm_eps"]).sqrt() * weight

    def fuse(self, taps: list[Tensor]) -> Tensor:
        x = torch.cat(taps)
        if self.raw.get("norm_before_fc"):
            x = self.norm(x, self.w["input_norm.weight"])
        if self.raw.get("fc_norm"):
            width = len(taps[0])
            parts = [x[i * width : (i + 1) * width] for i in range(len(taps))]
            x = torch.cat([self.norm(part, self.w[f"fc_norm.{i}.weight"]) for i, part in enumerate(parts)])
        return self.w["fc.weight"] @ x

    def rotate(self, x: Tensor, position: int) -> Tensor:
        """Pairs (i, i + d/2) turn by position · θ^(−2i/d), slowed down as in Llama 3.1 where so configured."""
        rope = self.c.get("rope_parameters") or {"rope_theta": self.c["rope_theta"], **(self.c["rope_scaling"] or {})}
        half = x.shape[-1] // 2
        out = x.clone()
        for i in range(half):
            turn = rope["rope_theta"] ** (-i / half)
            if rope.get("rope_type", "default") == "llama3":
                turn = slowed(turn, rope)
            cos, sin = math.cos(position * turn), math.sin(position * turn)
            out[:, i] = x[:, i] * cos - x[:, i + half] * sin
            out[:, i + half] = x[:, i + half] * cos + x[:, i] * sin
        return out

    def entry(self, token: int, g: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """(hidden state to feed back [H], draft logits [D])."""
        c, d = self.c, self.c["head_dim"]
        e = self.norm(self.w["embed_tokens.weight"][token], self.layer("input_layernorm"))
        normed = self.norm(g, self.layer("hidden_norm"))
        residual = normed if self.raw.get("norm_before_residual") else g
        both = torch.cat([e, normed])
        q, k, v = ((self.layer(f"self_attn.{n}_proj") @ both).view(-1, d) for n in "qkv")
        if c["model_type"] == "qwen3":
            q = torch.stack([self.norm(row, self.layer("self_attn.q_norm")) for row in q])
            k = torch.stack([self.norm(row, self.layer("self_attn.k_norm")) for row in k])
        self.keys.append(self.rotate(k, position))
        self.values.append(v)
        q = self.rotate(q, position)
        heads = []
        for head, query in enumerate(q):
            group = head * c["num_key_value_heads"] // c["num_attention_heads"]
            scores = torch.stack([query @ key[group] for key in self.keys]) / math.sqrt(d)
            heads.append(sum(p * value[group] for p, value in zip(scores.softmax(0), self.values, strict=True)))
        u = residual + self.layer("self_attn.o_proj") @ torch.cat(heads)  # type: ignore[arg-type]
        x = self.norm(u, self.layer("post_attention_layernorm"))
        gate = self.layer("mlp.gate_proj") @ x
        out = u + self.layer("mlp.down_proj") @ (gate * gate.sigmoid() * (self.layer("mlp.up_proj") @ x))
        last = self.norm(out, self.w["norm.weight"])
        return (last if self.raw.get("norm_output") else out), self.w["lm_head.weight"] @ last


def slowed(turn: float, rope: Mapping[str, Any]) -> float:
    """Llama 3.1: long waves are stretched by ``factor``, short ones kept, those between blended."""
    turns = rope["original_max_position_embeddings"] * turn / (2 * math.pi)  # over the original context
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    if turns > high:
        return turn
    if turns < low:
        return float(turn / rope["factor"])
    blend = (turns - low) / (high - low)
    return float((1 - blend) * turn / rope["factor"] + blend * turn)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedModel:
    folder = tiny_checkpoint("llama", tmp_path_factory.mktemp("target"), num_hidden_layers=8)
    return AutoModelForCausalLM.from_pretrained(folder)


PLAIN = {"rope_type": "default", "rope_theta": 500.0}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_before_residual": True},
        {"norm_output": True},
        {"fc_norm": True},
        {"norm_before_fc": True},
        {"norm_before_fc": True, "norm_output": True, "norm_before_residual": True},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1, "head_dim": 16},
        {"rope_parameters": PLAIN},
        {"rope_parameters": LLAMA3},
        {"qk_norm": True, "norm_before_residual": True},
        {"taps": (0, 2, 5, 7), "fc_norm": True},
        {"draft_vocabulary": 40},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_two_draft_steps_are_those_of_the_published_equations(
    options: dict[str, Any], family: Family, target: PreTrainedModel, tmp_path: Path
) -> None:
    config = tiny_config(target.config, **options)
    folder = save_head(random_head(config), tmp_path, family, without=["embed_tokens.weight"])
    raw = json.loads((folder / "config.json").read_text())
    head = load_head(folder, read_config(raw, target.config, "head", "target"), target)
    straight = Straight(folder, target.get_input_embeddings().weight.detach(), family)  # type: ignore[arg-type]

    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(target.config.vocab_size, (PREFIX,), generator=generator)
    taps = torch.randn(PREFIX, len(config.taps), target.config.hidden_size, generator=generator)
    for i, (token, each) in enumerate(zip(ids.tolist(), taps, strict=True)):
        fed, logits = straight.entry(token, straight.fuse(list(each)), i)
    token = int(logits.argmax()) + int(straight.w["d2t"][logits.argmax()])
    _, second = straight.entry(token, fed, PREFIX)

    prepare_head(head)
    cache = HeadCache(head, CacheSize(PREFIX + 1, 1))
    hidden, first = cache.predict(cache.extend(ids, head.fuse(taps.flatten(1)), 0))
    torch.testing.assert_close(hidden[-1], fed, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(first[-1], logits, rtol=1e-5, atol=1e-5)
    drafted = head.target_ids(first[-1:].argmax(-1))
    assert drafted.item() == token
    _, after = cache.predict(cache.draft(drafted, hidden[-1:], PREFIX, 0, torch.ones(1, 1, dtype=torch.bool)))
    torch.testing.assert_close(after[-1], second, rtol=1e-5, atol=1e-5)
