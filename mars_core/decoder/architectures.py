"""What the layers of each architecture with fast layers have that Llama's have not.

A new dense architecture is a row. What a row does not name is as the model's modules and
configuration have it: sizes, biases, norms of each query and key, the activation, the scale of
scores, and which layers have a sliding window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from transformers import PreTrainedConfig, PreTrainedModel


class Architecture(NamedTuple):
    """Names are of fields of a configuration, and empty where there is nothing of the kind."""

    # Names in a layer of the norms before and after its attention, before and after its
    # feed-forward block.
    norms: tuple[str, str, str, str] = ("input_layernorm", "", "post_attention_layernorm", "")
    norm_offset: int = 0  # added to the weights of all norms
    joint_heads: bool = False  # all queries of a token are normed as one, and all its keys
    rotary_layers: str = ""  # of every layer, whether it has rotary positions; else all have
    rotary_by_kind: bool = False  # layers of another kind of attention have another base
    score_cap: str = ""  # a score s becomes cap · tanh(s / cap)
    logit_cap: str = ""  # the same of logits
    logit_divisor: str = ""
    embedding_scale: str = ""  # a factor of embeddings, which their module does not apply
    residual_scale: str = ""  # a factor of what a layer adds


_GEMMA = Architecture(
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ),
    norm_offset=1,
    logit_cap="final_logit_softcapping",
)
_OLMO = Architecture(
    norms=("", "post_attention_layernorm", "", "post_feedforward_layernorm"), joint_heads=True
)
LLAMA = Architecture()
_BY_CLASS: Mapping[str, Architecture] = {
    "Gemma2ForCausalLM": _GEMMA._replace(score_cap="attn_logit_softcapping"),
    "Gemma3ForCausalLM": _GEMMA._replace(rotary_by_kind=True),
    "GemmaForCausalLM": Architecture(norm_offset=1),
    "GraniteForCausalLM": Architecture(
        embedding_scale="embedding_multiplier",
        residual_scale="residual_multiplier",
        logit_divisor="logits_scaling",
    ),
    "LlamaForCausalLM": LLAMA,
    "MistralForCausalLM": LLAMA,
    "Olmo2ForCausalLM": _OLMO,
    "Olmo3ForCausalLM": _OLMO._replace(rotary_by_kind=True),
    "Phi3ForCausalLM": LLAMA,
    "Qwen2ForCausalLM": LLAMA,
    "Qwen3ForCausalLM": LLAMA,
    "SmolLM3ForCausalLM": Architecture(rotary_layers="no_rope_layers"),
}


def architecture(model: PreTrainedModel) -> Architecture | None:
    """Return the row of a model; None for one without fast layers."""
    return _BY_CLASS.get(type(model).__name__)


def has_fast_layers(name: str) -> bool:
    """Return whether there is a row for an architecture, named as a configuration or a GGUF file
    does: ``Qwen2ForCausalLM``, ``qwen2``."""
    plain = name.lower().replace("_", "").removesuffix("forcausallm")
    return f"{plain}forcausallm" in {each.lower() for each in _BY_CLASS}


def number(config: PreTrainedConfig, field: str) -> float | None:
    """Return the number in a field of a row; None where it names none, or the model has none."""
    return getattr(config, field) if field else None
