"""Small random EAGLE-3 heads, in memory and as the folders that the two families of trainers write.
Seeded, float32.

A head made here owns its embedding, which is a copy of the target's if a target is given, so that
files without one can stand for it. Norm weights are not all 1, so that a misplaced norm
shows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig, PreTrainedConfig, PreTrainedModel

from mars_core.eagle3.head import Eagle3Head, HeadConfig
from training.head.chain import finish, project

Family = Literal["eagle", "speculators"]
Format = Literal["safetensors", "bin"]
FAMILIES: tuple[Family, ...] = ("eagle", "speculators")
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
_BODY = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "attention_bias",
    "mlp_bias",
    "max_position_embeddings",
    "tie_word_embeddings",
)
_ATTENTION = ("q_", "k_", "v_", "o_")


def tiny_config(
    target: PreTrainedConfig,
    *,
    draft_vocabulary: int = 0,
    feature_layers: tuple[int, ...] = (),
    qk_norm: bool = False,
    **options: Any,
) -> HeadConfig:
    """For ``target``; ``options`` are flags of HeadConfig, or fields of its layer's LlamaConfig
    (which has GQA)."""
    flags = {key: options.pop(key) for key in _FLAGS if key in options}
    layer: Mapping[str, Any] = {
        "hidden_size": target.hidden_size,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": target.vocab_size,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        **options,
    }
    layers = target.num_hidden_layers
    return HeadConfig(
        layer=LlamaConfig(**layer),
        target_hidden_size=target.hidden_size,
        target_vocabulary=target.vocab_size,
        draft_vocabulary=draft_vocabulary or target.vocab_size,
        feature_layers=feature_layers or (2, layers // 2, layers - 3),
        qk_norm=qk_norm,
        **flags,
    )


def random_head(
    config: HeadConfig, target: PreTrainedModel | None = None, *, seed: int = 0
) -> Eagle3Head:
    """Spread weights, and draft ids that stand for a random ascending selection of the target's."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        head = Eagle3Head(config)
    with torch.no_grad():
        for name, weight in head.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.copy_(1 + 0.2 * noise if "norm" in name else 0.2 * noise)
        if target is not None:
            head.embed_tokens.weight.copy_(target.get_input_embeddings().weight)  # type: ignore[arg-type]
    chosen = (
        torch.randperm(config.target_vocabulary, generator=generator)[: config.draft_vocabulary]
        .sort()
        .values
    )
    head.d2t.copy_(chosen - torch.arange(config.draft_vocabulary))
    return head.eval().requires_grad_(False)


def save_head(
    head: Eagle3Head,
    folder: Path,
    family: Family = "eagle",
    *,
    form: Format = "safetensors",
    shards: int = 1,
    prefix: str = "",
    without: Collection[str] = (),
    extra: Mapping[str, Tensor] = {},
    keys: Mapping[str, Any] = {},
    verifier: str = "org/target",
) -> Path:
    """Writes ``head`` as ``family`` does. ``without``: names of tensors left out; ``extra``: added
    or replaced ones; ``keys``: replaced in config.json, at its top or, for speculators, in
    transformer_layer_config if the key is one of its."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: weight for name, weight in stored(head, family).items() if name not in without}
    named = {
        prefix * (name not in ("d2t", "t2d")) + name: weight
        for name, weight in {**tensors, **extra}.items()
    }
    save_tensors(named, folder, form, shards)
    raw = raw_config(head.config, family, verifier)
    layer = raw.get("transformer_layer_config", raw)
    for key, value in keys.items():
        (layer if key in layer else raw)[key] = value
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


def stored(head: Eagle3Head, family: Family) -> dict[str, Tensor]:
    """All tensors in the names of ``family``, t2d included."""
    prefix = {"eagle": "midlayer.", "speculators": "layers.0."}[family]
    tensors: dict[str, Tensor] = {}
    for name, weight in head.state_dict().items():
        inner = name.removeprefix("layer.")
        if inner != name:
            name = prefix + ("self_attn." if inner.startswith(_ATTENTION) else "") + inner
        tensors[name] = weight.clone()
    marks = torch.zeros(head.config.target_vocabulary, dtype=torch.bool)
    marks[torch.arange(head.config.draft_vocabulary) + head.d2t] = True
    return {**tensors, "t2d": marks}


def raw_config(config: HeadConfig, family: Family, verifier: str = "org/target") -> dict[str, Any]:
    """config.json as ``family`` writes it."""
    layer = config.layer
    rope = dict(layer.rope_parameters or {})
    theta, kind = rope.pop("rope_theta", None), rope.get("rope_type")
    body = {name: getattr(layer, name) for name in _BODY} | {
        "model_type": "qwen3" if config.qk_norm else "llama",
        "num_hidden_layers": 1,
        "vocab_size": config.target_vocabulary,
    }
    flags = {name: getattr(config, name) for name in _FLAGS}
    ids = list(config.feature_layers)
    if family == "eagle":
        assert ids[0] != 1, "such a list would count outputs of layers"
        old = {"rope_theta": theta, "rope_scaling": None if kind == "default" else rope}
        classes = ["Eagle3Qwen3ForCausalLM" if config.qk_norm else "LlamaForCausalLMEagle3"]
        nested = {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True}
        set_flags = {name: True for name, value in flags.items() if value}
        return {
            **body,
            **old,
            **set_flags,
            "architectures": classes,
            "draft_vocab_size": config.draft_vocabulary,
            "target_hidden_size": config.target_hidden_size,
            "eagle_config": nested,
        }
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        **flags,
        "draft_vocab_size": config.draft_vocabulary,
        "target_hidden_size": config.target_hidden_size,
        "eagle_aux_hidden_state_layer_ids": ids,
        "transformer_layer_config": {**body, "rope_parameters": {**rope, "rope_theta": theta}},
        "speculators_config": {
            "algorithm": "eagle3",
            "verifier": {"name_or_path": verifier, "architectures": []},
        },
    }


def save_tensors(
    tensors: Mapping[str, Tensor], folder: Path, form: Format = "safetensors", shards: int = 1
) -> None:
    """One file, or ``shards`` with their index."""
    stem, write = ("model", save_file) if form == "safetensors" else ("pytorch_model", torch.save)
    if shards == 1:
        return write(dict(tensors), folder / f"{stem}.{form}")
    index = {}
    for part in range(shards):
        name = f"{stem}-{part + 1:05}-of-{shards:05}.{form}"
        inside = {key: tensors[key] for key in list(tensors)[part::shards]}
        write(inside, folder / name)
        index |= dict.fromkeys(inside, name)
    (folder / f"{stem}.{form}.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )


def plain_pass(head: Eagle3Head, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """All entries ids [N], hidden [N, H] at once, without a cache: hidden states to feed back and
    normed ones, [N, H]."""
    residual, q, k, v = project(head, ids[None], hidden[None], torch.arange(len(ids))[None])
    attended = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
    output, normed = finish(head, residual, attended)
    return output[0], normed[0]
