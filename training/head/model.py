"""The head before training, and as a folder: in the format of the EAGLE authors and SpecForge, or
of speculators."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedModel

from mars_core.decoder import input_embedding
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.eagle.checkpoint import aliases, load_eagle, plan_eagle
from mars_core.models.errors import ModelError
from mars_core.types import ModelRef
from training.head.synthesis import TextSample

log = logging.getLogger("training.head")
Format = Literal["specforge", "speculators"]
_GAIN = 0.6  # of the last norm at first: flatter drafts, which lose less where they are wrong
_KEEP = 0.5  # share of the last tap in the residual at first


def default_feature_layers(layers: int) -> tuple[int, ...]:
    """Near the first, the middle and the last layer, as in EAGLE's code."""
    return tuple(sorted({min(2, layers - 1), layers // 2, max(0, layers - 3)}))


def head_size(target: PreTrainedModel) -> int:
    """Return the width of an attention head."""
    config: Any = target.config
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


def cell_bytes(target: PreTrainedModel, feature_layers: tuple[int, ...]) -> int:
    """Memory of a position of a row: keys, values and W."""
    config: Any = target.config
    keys = 2 * config.num_hidden_layers * config.num_key_value_heads * head_size(target)
    width = (len(feature_layers) + 1) * config.hidden_size
    return int((keys + width) * target.dtype.itemsize)


def empty_head(target: PreTrainedModel, feature_layers: tuple[int, ...], size: int) -> Eagle3Head:
    """Return a head for ``target`` with ``size`` draft ids and as many key heads as heads.
    Embedding and output layer are not trained."""
    config: Any = target.config
    heads, width = config.num_attention_heads, config.hidden_size
    layer = LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=width,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=head_size(target),
        hidden_act=config.hidden_act,
        max_position_embeddings=config.max_position_embeddings,
        rms_norm_eps=config.rms_norm_eps,
        rope_parameters=dict(config.rope_parameters),
    )
    head = Eagle3Head(
        HeadConfig(layer, width, config.vocab_size, size, feature_layers, fc_norm=True)
    ).to(target.device)
    head.embed_tokens.requires_grad_(False)
    head.lm_head.requires_grad_(False)
    return head


def stored_head(folder: Path, target: PreTrainedModel) -> dict[str, Tensor]:
    """Read the weights of a head of this recipe, in either format. Raises ModelError."""
    name, served = str(folder.resolve()), str(target.config.name_or_path)
    plan = plan_eagle(ModelRef(name), target.config, served, log.info)
    usual = empty_head(target, default_feature_layers(target.config.num_hidden_layers), 1).config
    draft = plan.config.draft_vocabulary
    if plan.config != replace(usual, layer=plan.config.layer, draft_vocabulary=draft):
        raise ModelError(
            f"{folder} is not an EAGLE-3 head of this recipe: choose one for --head that it wrote."
        )
    head, _ = load_eagle(plan, target, log.info)
    return head.state_dict()


def build_head(
    target: PreTrainedModel,
    feature_layers: tuple[int, ...],
    ids: Tensor,
    samples: Sequence[TextSample],
    seed: int,
) -> Eagle3Head:
    """Build a head that starts as a copy of the target's last layer, whose outputs are scaled to a
    residual of unit scale, since the layers are normed here and are not in the target. ``ids`` [D]:
    the draft vocabulary, whose rows of the target's output layer are the head's; ``samples`` tell
    the scale of the last tap."""
    config: Any = target.config
    last: Any = target.get_decoder().layers[-1]
    width = config.hidden_size
    torch.manual_seed(seed)
    head = empty_head(target, feature_layers, len(ids))
    for module in head.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
    read = len(feature_layers) * width
    tap = torch.cat([sample.values[:, read - width : read] for sample in samples[:64]])
    scale = float(tap.float().pow(2).mean(-1).sqrt().median())
    groups = config.num_attention_heads // config.num_key_value_heads
    attention, mlp = last.self_attn, last.mlp
    weights: dict[str, Tensor] = {
        "embed_tokens": input_embedding(target).weight,
        "lm_head": target.lm_head.weight[ids],
        "norm": target.get_decoder().norm.weight * _GAIN,
        "layer.hidden_norm": last.input_layernorm.weight,
        "layer.post_attention_layernorm": last.post_attention_layernorm.weight,
        "layer.o_proj": attention.o_proj.weight / scale,
        "layer.mlp.gate_proj": mlp.gate_proj.weight,
        "layer.mlp.up_proj": mlp.up_proj.weight,
        "layer.mlp.down_proj": mlp.down_proj.weight / scale,
    }
    with torch.no_grad():
        head.load_state_dict({f"{name}.weight": w for name, w in weights.items()}, strict=False)
        head.layer.q_proj.weight[:, width:] = attention.q_proj.weight
        for name in ("k_proj", "v_proj"):
            stored = getattr(attention, name).weight.unflatten(0, (config.num_key_value_heads, -1))
            getattr(head.layer, name).weight[:, width:] = stored.repeat_interleave(
                groups, 0
            ).flatten(0, 1)
        head.fc.weight[:, -width:] += torch.eye(width, device=target.device) * _KEEP
        head.d2t.copy_(ids - torch.arange(len(ids), device=ids.device))
    return head


def save_head(head: Eagle3Head, target: PreTrainedModel, folder: Path, form: Format) -> None:
    """Save it in bfloat16; the embedding is the target's and is not stored. Each file is replaced
    at once."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        aliases(name)[form == "speculators"]: value.detach().to("cpu", torch.bfloat16).contiguous()
        for name, value in head.named_parameters()
        if not name.startswith("embed_tokens.")
    }
    offsets, total = head.d2t.cpu(), head.config.target_vocabulary
    ids = torch.arange(head.config.draft_vocabulary) + offsets
    tensors["d2t"], tensors["t2d"] = (
        offsets,
        torch.zeros(total, dtype=torch.bool).index_fill_(0, ids, True),
    )
    save_file(tensors, folder / ".model.safetensors", metadata={"format": "pt"})
    (folder / ".config.json").write_text(
        json.dumps(_config(head.config, target, form), indent=2) + "\n", encoding="utf-8"
    )
    for name in ("model.safetensors", "config.json"):
        (folder / f".{name}").replace(folder / name)


_SIZES = (  # of the layer's configuration, stored under the same names
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "max_position_embeddings",
)
_PROPOSAL = {
    "proposal_type": "greedy",
    "speculative_tokens": 5,
    "verifier_accept_k": 1,
    "accept_tolerance": 0.0,
}


def _config(config: HeadConfig, target: PreTrainedModel, form: Format) -> dict[str, Any]:
    rotary, ids = dict(config.layer.rope_parameters or {}), list(config.feature_layers)
    layer = {
        "model_type": "llama",
        "vocab_size": config.target_vocabulary,
        **{name: getattr(config.layer, name) for name in _SIZES},
        "rope_theta": rotary.pop("rope_theta"),
        **({"rope_scaling": rotary} if rotary["rope_type"] != "default" else {}),
    }
    shared = {
        "draft_vocab_size": config.draft_vocabulary,
        "fc_norm": config.fc_norm,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    if form == "specforge":
        return {
            "architectures": ["LlamaForCausalLMEagle3"],
            **shared,
            "bos_token_id": target.config.bos_token_id,
            "eos_token_id": target.config.eos_token_id,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids},
            **layer,
        }
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        **shared,
        "norm_before_residual": config.norm_before_residual,
        "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": ids,
        "transformer_layer_config": {**layer, "attention_bias": False, "mlp_bias": False},
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [_PROPOSAL],
            "verifier": {
                "name_or_path": target.config.name_or_path,
                "architectures": target.config.architectures or [],
            },
        },
    }
