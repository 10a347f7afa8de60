"""The recipe of the bundled EAGLE-3 head: its batched chains are the chains that drafting makes."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import LlamaConfig

from mars_core.eagle3.head import Eagle3Head, HeadConfig
from training.head_chain import finish, project, unroll
from training.train_head import main

_STEPS = 4


def _tiny() -> Eagle3Head:
    layer = LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=4,
    )  # fmt: skip
    torch.manual_seed(3)
    head = Eagle3Head(HeadConfig(layer, 16, 20, 20, (0, 1, 2)))
    for weight in head.parameters():
        nn.init.normal_(weight, std=0.4)
    return head


def _drafted(head: Eagle3Head, ids: Tensor, features: Tensor, anchor: int) -> list[Tensor]:
    """One sequence [N], one entry after the other: the prefix up to ``anchor``, then tokens given by the teacher."""
    keys: list[Tensor] = []
    values: list[Tensor] = []
    logits: list[Tensor] = []
    hidden = head.fuse(features[None, :1])
    for place in range(anchor + _STEPS):
        if place <= anchor:
            hidden = head.fuse(features[None, place : place + 1])
        residual, query, key, value = project(head, ids[None, place : place + 1], hidden, torch.tensor([[place]]))
        keys.append(key)
        values.append(value)
        attended = nn.functional.scaled_dot_product_attention(
            query, torch.cat(keys, 2), torch.cat(values, 2), enable_gqa=True
        )
        hidden, given = finish(head, residual, attended)
        logits.append(given[0, 0])
    return logits


@torch.no_grad()
def test_unrolled_chains_equal_drafting_one_by_one() -> None:
    head = _tiny()
    ids, features = torch.randint(0, 20, (2, 9)), torch.randn(2, 9, 48)
    anchors = torch.tensor([[0, 2, 5], [1, 3, 4]])
    steps = unroll(head, ids, features, anchors, _STEPS)
    assert [tuple(each.shape) for each in steps] == [(2, 9, 20)] + [(2, 3, 20)] * (_STEPS - 1)
    for row in range(2):
        for column, anchor in enumerate(anchors[row].tolist()):
            single = _drafted(head, ids[row], features[row], anchor)
            torch.testing.assert_close(
                steps[0][row, : anchor + 1], torch.stack(single[: anchor + 1]), atol=1e-5, rtol=0
            )
            chained = torch.stack([each[row, column] for each in steps[1:]])
            torch.testing.assert_close(chained, torch.stack(single[anchor + 1 :]), atol=1e-5, rtol=0)


def test_quick_recipe_makes_a_checkpoint_in_the_common_format(tmp_path: Path) -> None:
    main(["--quick", "--out", str(tmp_path)])
    config = json.loads((tmp_path / "eagle3" / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["eagle_config"] == {"eagle_aux_hidden_state_layer_ids": [2, 6, 9]}
    with safe_open(tmp_path / "eagle3" / "model.safetensors", "pt") as made:
        assert set(made.keys()) == _NAMES
        assert all(made.get_tensor(name).dtype == torch.bfloat16 for name in _NAMES)


_NAMES = {
    "fc.weight",
    "norm.weight",
    "lm_head.weight",
    *(f"midlayer.{name}.weight" for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm")),
    *(f"midlayer.self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"midlayer.mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
}
