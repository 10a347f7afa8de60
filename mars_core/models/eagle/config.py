"""Reads the config.json of an EAGLE-3 head, of both families: EAGLE's own (SpecForge, SGLang,
AngelSlim) and speculators.

Raises ModelError for configurations that cannot be built or do not fit the target, before any
weight is read. Where the programs that write and serve heads disagree, the comment at the key says
which one is followed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import LlamaConfig, PreTrainedConfig
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from mars_core.eagle3.head import HeadConfig
from mars_core.models.errors import ModelError

_ROTARY = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")
# vLLM takes true for the first where speculators' file is silent
_NORMS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
_WIDEST_HEAD = (
    65_536  # above any real head; checked because its rotary frequencies are computed first
)
_THETA = 10_000.0  # default, as in EAGLE's training code; never the target's
# Older converters of speculators write this vocab_size whatever the target; the tensors are
# checked.
_PLACEHOLDER_VOCABULARY = 128_000
_ONLY: Mapping[
    str, Any
] = {  # keys of vLLM and NVIDIA's ModelOpt; the only supported values, which are also the defaults
    "use_aux_hidden_state": True,
    "use_input_layernorm_in_first_layer": True,
    "use_last_layernorm": True,
    "use_mtp_layernorm": False,
    "parallel_draft_step": 1,
    "logit_scale": 1,
}


def read_config(
    raw: Mapping[str, Any], target: PreTrainedConfig, name: str, target_name: str
) -> HeadConfig:
    """Return the head that ``raw`` describes, for a target with the configuration ``target``.
    Raises ModelError. The names are for messages. A verifier of another name but of the same sizes
    is accepted: folders are renamed."""
    text = target.get_text_config(decoder=True)
    width, vocabulary = int(text.hidden_size), int(text.vocab_size)
    speculators = "speculators_model_type" in raw or "transformer_layer_config" in raw
    file = _Keys(raw, name)
    head = _Keys({**raw, **file.mapping("eagle_config")}, name)
    layer = _Keys(file.mapping("transformer_layer_config"), name) if speculators else head
    qk_norm = _check_kind(head, layer, speculators)
    verifier = file.mapping("speculators_config").get("verifier")
    made_for = verifier.get("name_or_path") if isinstance(verifier, Mapping) else None

    def misfit(key: str, value: int, limit: str) -> ModelError:
        return ModelError(
            f"The EAGLE-3 head {name}{f' (made for {made_for})' if made_for else ''} expects "
            f"{key} {value}, but {target_name} has {limit}: choose the head that was trained for "
            f"{target_name}."
        )

    read = "hidden_size" if head.get("target_hidden_size") is None else "target_hidden_size"
    read_width = head.positive_int("target_hidden_size", layer.positive_int("hidden_size"))
    if read_width != width:
        raise misfit(f"{read} of the target", read_width, str(width))
    tokens = head.positive_int("target_vocab_size", layer.positive_int("vocab_size", vocabulary))
    if tokens != vocabulary and not (speculators and tokens == _PLACEHOLDER_VOCABULARY):
        raise misfit("vocab_size", tokens, str(vocabulary))
    if (draft := head.positive_int("draft_vocab_size", vocabulary)) > vocabulary:
        raise misfit("draft_vocab_size", draft, f"{vocabulary} tokens")
    return HeadConfig(
        layer=_layer(layer, vocabulary),
        target_hidden_size=width,
        target_vocabulary=vocabulary,
        draft_vocabulary=draft,
        feature_layers=_feature_layers(head, int(text.num_hidden_layers), target_name),
        qk_norm=qk_norm,
        **{key: head.flag(key) for key in _NORMS},
    )


class _Keys(NamedTuple):
    """Values of a JSON object, with type checks; null counts as absent."""

    values: Mapping[str, Any]
    name: str  # of the head

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def positive_int(self, key: str, default: int | None = None) -> int:
        return int(self._checked(key, default, (int,), "an integer above 0"))

    def number(self, key: str, default: float) -> float:
        return float(self._checked(key, default, (int, float), "a number above 0"))

    def flag(self, key: str) -> bool:
        return bool(self._checked(key, False, (bool,), "true or false"))

    def mapping(self, key: str) -> Mapping[str, Any]:
        return dict(self._checked(key, {}, (dict,), "an object"))

    def _checked(self, key: str, default: Any, types: tuple[type, ...], needed: str) -> Any:
        """Return a value of exactly one of ``types``; numbers are positive and finite."""
        value = self.get(key)
        if value is None and default is None:
            raise ModelError(
                f"config.json of {self.name} has no {key}, so it does not describe an EAGLE-3 "
                "head: give the folder of one, with its own config.json."
            )
        if value is None:
            return default
        if type(value) not in types or (int in types and not 0 < value < math.inf):
            raise self.refusal(key, f"{needed} is needed")
        return value

    def refusal(self, key: str, needed: str) -> ModelError:
        value = repr(self.get(key))
        return ModelError(
            f"config.json of the EAGLE-3 head {self.name} has {key} "
            f"{value if len(value) <= 80 else value[:79] + '…'}, but {needed}: choose another "
            "head, or correct the file."
        )


def _check_kind(head: _Keys, layer: _Keys, speculators: bool) -> bool:
    """Raises ModelError unless this is an EAGLE-3 head with one Llama-like layer. Returns whether
    queries and keys are normed (Qwen3)."""
    if speculators and head.get("speculators_model_type") not in (None, "eagle3"):
        raise head.refusal("speculators_model_type", "only eagle3 can be run")
    if layer.positive_int("num_hidden_layers", 1) != 1:
        raise layer.refusal("num_hidden_layers", "a head with 1 layer is needed")
    for key, only in _ONLY.items():
        if head.get(key) is not None and head.get(key) != only:
            raise head.refusal(key, f"only {str(only).lower()} can be run")
    if layer.flag("use_sliding_window") or "sliding_attention" in (layer.get("layer_types") or ()):
        raise layer.refusal("sliding_window", "attention over the full context is needed")
    classes = " ".join(map(str, head.get("architectures") or ())).lower()
    kind = layer.get("model_type")
    if "qwen3" in classes or (kind == "qwen3" and "llama" not in classes):
        return True
    if "llama" not in classes and kind not in (None, "llama"):
        raise layer.refusal("model_type", "a head with a layer of llama or qwen3 is needed")
    return False


def _feature_layers(head: _Keys, layers: int, target_name: str) -> tuple[int, ...]:
    """Layers of the target whose input is read, in the order in which it is concatenated. SGLang,
    SpecForge and ModelOpt count outputs of layers: 1, n/2 − 1, n − 4 for the same hidden states as
    2, n/2, n − 3. Only that exact list is converted."""
    key = "eagle_aux_hidden_state_layer_ids"
    default = (2, layers // 2, layers - 3)
    ids = default if head.get(key) in (None, []) else head.get(key)
    if not isinstance(ids, list | tuple) or {*map(type, ids)} != {int}:
        raise head.refusal(key, "a list of layer numbers is needed")
    if list(ids) == [i - 1 for i in default]:
        ids = default
    if not all(0 <= i < layers for i in ids):
        raise ModelError(
            f"The EAGLE-3 head {head.name} reads layers {list(ids)} ({key}), but {target_name} "
            f"has layers 0 to {layers - 1}: choose the head that was trained for {target_name}."
        )
    return tuple(ids)


def _layer(keys: _Keys, vocabulary: int) -> LlamaConfig:
    """Return the decoder layer as a Llama configuration; built once as a check."""
    width, heads = keys.positive_int("hidden_size"), keys.positive_int("num_attention_heads")
    groups, head_dim = (
        keys.positive_int("num_key_value_heads", heads),
        keys.positive_int("head_dim", max(1, width // heads)),
    )
    if heads % groups:
        raise keys.refusal(
            "num_key_value_heads", f"a divisor of num_attention_heads {heads} is needed"
        )
    if head_dim % 2 or head_dim > _WIDEST_HEAD:
        raise keys.refusal(
            "head_dim", f"an even number up to {_WIDEST_HEAD} is needed, not {head_dim}"
        )
    activation = keys.get("hidden_act") or "silu"
    if not isinstance(activation, str) or activation not in ACT2FN:
        raise keys.refusal("hidden_act", "an activation that transformers knows is needed")
    values: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": keys.positive_int("intermediate_size"),
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": head_dim,
        "hidden_act": activation,
        "max_position_embeddings": keys.positive_int("max_position_embeddings", 2048),
        "rms_norm_eps": keys.number("rms_norm_eps", 1e-6),
        "rope_parameters": _rotary(keys),
        **{flag: keys.flag(flag) for flag in ("attention_bias", "mlp_bias", "tie_word_embeddings")},
    }
    try:
        layer = LlamaConfig(**values)
        finite = bool(torch.isfinite(LlamaRotaryEmbedding(layer).inv_freq).all())
    except (
        StrictDataclassError,
        KeyError,
        TypeError,
        ValueError,
        ArithmeticError,
        RuntimeError,
    ) as error:
        reason = " ".join(str(error).split())[:240].rstrip(".")
        raise ModelError(
            f"The decoder layer in config.json of {keys.name} cannot be built ({reason}): choose "
            "another head, or correct the file."
        ) from error
    if not finite:
        raise keys.refusal(
            "rope_scaling",
            f"finite frequencies are needed, not those of {values['rope_parameters']}",
        )
    return layer


def _rotary(keys: _Keys) -> dict[str, Any]:
    """Return ``rope_parameters`` of current transformers, from themselves or from the older
    ``rope_scaling`` and ``rope_theta``."""
    key = "rope_scaling" if keys.get("rope_scaling") else "rope_parameters"
    rope = _Keys(keys.mapping(key), keys.name)
    if any(isinstance(value, Mapping) for value in rope.values.values()):
        raise keys.refusal(key, "one setting for the only layer is needed")
    for section in (keys, rope):
        if section.number("partial_rotary_factor", 1.0) != 1:
            raise section.refusal("partial_rotary_factor", "only 1.0 can be run")
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind not in _ROTARY:
        raise keys.refusal(key, f"one of the kinds {', '.join(_ROTARY)} is needed")
    theta = rope.number("rope_theta", keys.number("rope_theta", _THETA))
    parameters = {
        name: value for name, value in rope.values.items() if name != "type" and value is not None
    }
    original = keys.get("original_max_position_embeddings")  # Phi-3 writes it beside rope_scaling
    if original is not None and kind in ("llama3", "yarn", "longrope"):
        parameters.setdefault("original_max_position_embeddings", original)
    return {**parameters, "rope_type": kind, "rope_theta": theta}
