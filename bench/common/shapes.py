"""Sizes of models: those of public ones, and small ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from transformers import LlamaConfig, Qwen3Config

CONTEXT = 8448  # tokens


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of one model. ``source``: their public model. ``tied``: the original's output layer is
    its embedding table."""

    source: str
    family: type[LlamaConfig | Qwen3Config]
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    rope_theta: float
    tied: bool = False
    drafted: int = 0  # draft vocabulary of an EAGLE-3 head

    def config(self, *, tied: bool = False) -> LlamaConfig | Qwen3Config:
        """A configuration with a separate output layer for the bigram: a pass reads as many bytes
        as one of a tied model."""
        fields: Mapping[str, Any] = {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": CONTEXT,
            "tie_word_embeddings": tied,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": None,
        }
        return self.family(**fields)


class Trio(NamedTuple):
    """A target with its draft model and, optionally, its head."""

    target: ModelShape
    draft: ModelShape
    head: ModelShape | None = None


_8B = ModelShape(
    "meta-llama/Llama-3.1-8B-Instruct", LlamaConfig, 4096, 32, 32, 8, 128, 14336, 128256, 5e5
)
_1B = ModelShape(
    "meta-llama/Llama-3.2-1B-Instruct",
    LlamaConfig,
    2048,
    16,
    32,
    8,
    64,
    8192,
    128256,
    5e5,
    tied=True,
)
_4B = ModelShape("Qwen/Qwen3-4B", Qwen3Config, 2560, 36, 32, 8, 128, 9728, 151936, 1e6, tied=True)
_SMALL = ModelShape(
    "Qwen/Qwen3-0.6B", Qwen3Config, 1024, 28, 16, 8, 128, 3072, 151936, 1e6, tied=True
)
_HEAD = replace(_8B, source="yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", layers=1, drafted=32000)
_4B_HEAD = replace(
    _4B, source="a head as for Llama 3.1", family=LlamaConfig, layers=1, drafted=32000, tied=False
)
PUBLIC: Mapping[str, Trio] = {  # from memory of their config.json: not verified against the Hub
    "llama": Trio(_8B, _1B, _HEAD),
    "qwen": Trio(_4B, _SMALL, _4B_HEAD),
}
_TINY: Mapping[str, Any] = {
    "source": "tiny shapes",
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "vocabulary": 1536,
}


def small(vocabulary: int) -> Trio:
    """Llamas of width 256: a target of four layers, a draft model and a head of one."""
    target = ModelShape("random/width-256", LlamaConfig, 256, 4, 4, 4, 64, 768, vocabulary, 1e4)
    return Trio(
        target,
        replace(target, source="random/one-layer", layers=1),
        replace(target, layers=1, drafted=vocabulary),
    )


def tiny(trio: Trio) -> Trio:
    """The same families in sizes for tests."""
    draft = replace(trio.draft, hidden=64, layers=2, intermediate=128, **_TINY)
    head = (
        replace(trio.head, hidden=128, intermediate=256, drafted=1024, **_TINY)
        if trio.head
        else None
    )
    return Trio(replace(trio.target, hidden=128, layers=6, intermediate=256, **_TINY), draft, head)
