"""Small random checkpoints on disk, one for each architecture that the engine promises to serve,
with a tokenizer.

Seeded, float32, 2 or 3 layers of width 32. ``initializer_range`` is large, so that the logits are
spread and greedy choices have no near ties. Sliding windows are 8 tokens, shorter than any run of
interest.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTNeoXConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    Olmo3Config,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

SPECIAL = ("<unk>", "<s>", "</s>")
BOS, EOS = 1, 2
CHARACTERS = "\n" + string.digits + string.ascii_letters + string.punctuation + " "
VOCABULARY = len(SPECIAL) + len(CHARACTERS)
WINDOW = 8  # tokens, of the sliding layers
CONTEXT = 256  # tokens

_WIDTHS: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
_ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
_TWO_BASES = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
    "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
_GEMMA: Mapping[str, Any] = {
    **_WIDTHS,
    "num_hidden_layers": 3,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "layer_types": _ALTERNATING,
    "sliding_window": WINDOW,
}
_KINDS: Mapping[str, tuple[Callable[..., PreTrainedConfig], Mapping[str, Any]]] = {
    "llama": (LlamaConfig, _WIDTHS),
    "qwen2": (Qwen2Config, _WIDTHS),
    "qwen3": (Qwen3Config, {**_WIDTHS, "head_dim": 8}),
    "mistral": (MistralConfig, {**_WIDTHS, "sliding_window": WINDOW}),
    "gemma": (GemmaConfig, {**_WIDTHS, "head_dim": 16}),
    "gemma2": (
        Gemma2Config,
        {**_GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 6.0},
    ),
    "gemma3": (Gemma3TextConfig, {**_GEMMA, "rope_parameters": _TWO_BASES}),
    "granite": (
        GraniteConfig,
        {
            **_WIDTHS,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.6,
            "attention_multiplier": 0.2,
            "logits_scaling": 1.5,
        },
    ),
    "olmo2": (Olmo2Config, _WIDTHS),
    "olmo3": (
        Olmo3Config,
        {**_WIDTHS, "num_hidden_layers": 3, "layer_types": _ALTERNATING, "sliding_window": WINDOW},
    ),
    "smollm3": (SmolLM3Config, {**_WIDTHS, "num_hidden_layers": 3, "no_rope_layer_interval": 2}),
    "phi3": (Phi3Config, {**_WIDTHS, "original_max_position_embeddings": CONTEXT}),
    "gpt2": (GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}),
    "gpt_neox": (
        GPTNeoXConfig,
        {name: _WIDTHS[name] for name in _WIDTHS if name != "num_key_value_heads"},
    ),
}
KINDS = tuple(_KINDS)
FAST = tuple(kind for kind in KINDS if not kind.startswith("gpt"))  # those with fast layers
HEADED = ("llama", "mistral", "phi3", "qwen2", "qwen3")  # those with EAGLE-3 heads


def tiny_tokenizer(
    folder: Path | None = None, *, vocabulary: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """One token a character of ASCII text (others: ``<unk>``), saved to ``folder`` if given.

    ``vocabulary`` replaces the tokens; its first three are unknown, begin and end.
    """
    tokens = vocabulary or (*SPECIAL, *CHARACTERS)
    core = Tokenizer(
        models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token=SPECIAL[0])
    )
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token=SPECIAL[0],
        bos_token=SPECIAL[BOS],
        eos_token=SPECIAL[EOS],
        pad_token=SPECIAL[EOS],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    if folder is not None:
        tokenizer.save_pretrained(folder)
    return tokenizer


def tiny_config(kind: str, **overrides: Any) -> PreTrainedConfig:
    """The configuration of a small model of ``kind`` (one of KINDS); ``overrides`` are fields of
    its configuration."""
    make, widths = _KINDS[kind]
    tokens = {
        "vocab_size": VOCABULARY,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": EOS,
    }
    return make(**{**widths, **tokens, "initializer_range": 0.2, **overrides})


def tiny_model(
    kind: str, *, seed: int = 0, dtype: torch.dtype = torch.float32, **overrides: Any
) -> PreTrainedModel:
    """A random model of ``kind`` in memory, without gradients."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            tiny_config(kind, **overrides), dtype=dtype
        )
    return model.eval().requires_grad_(False)


def random_ids(count: int, seed: int = 0) -> Tensor:
    """Ids of characters."""
    return torch.randint(3, 90, (count,), generator=torch.Generator().manual_seed(seed))


def tiny_checkpoint(kind: str, folder: Path, *, seed: int = 0, **overrides: Any) -> Path:
    """A random model of ``kind`` in ``folder``, as safetensors, with the tokenizer; returns the
    folder."""
    tiny_model(kind, seed=seed, **overrides).save_pretrained(folder)
    tiny_tokenizer(folder)
    return folder
