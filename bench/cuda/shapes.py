"""Sizes of models: those of public ones, and tiny ones of the same families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from transformers import LlamaConfig, Qwen3Config

CONTEXT = 8448  # tokens


class ModelShape(NamedTuple):
    """Sizes of one model. ``source``: their public model; ``drafted``: the draft vocabulary of an
    EAGLE-3 head."""

    source: str
    family: Callable[..., Any]  # makes a configuration
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    rope_theta: float
    drafted: int = 0

    def config(self) -> Any:
        """Return a configuration with a separate output layer for the bigram: a pass reads as many
        bytes as one of a tied model."""
        return self.family(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim,
            intermediate_size=self.intermediate,
            vocab_size=self.vocabulary,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": self.rope_theta},
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )


class Trio(NamedTuple):
    """A target with its draft model and its head."""

    target: ModelShape
    draft: ModelShape
    head: ModelShape


# from memory of their config.json: not verified against the Hub
_8B = ModelShape(
    "meta-llama/Llama-3.1-8B-Instruct", LlamaConfig, 4096, 32, 32, 8, 128, 14336, 128256, 5e5
)
_1B = ModelShape(
    "meta-llama/Llama-3.2-1B-Instruct", LlamaConfig, 2048, 16, 32, 8, 64, 8192, 128256, 5e5
)
_4B = ModelShape("Qwen/Qwen3-4B", Qwen3Config, 2560, 36, 32, 8, 128, 9728, 151936, 1e6)
_SMALL = ModelShape("Qwen/Qwen3-0.6B", Qwen3Config, 1024, 28, 16, 8, 128, 3072, 151936, 1e6)


def _head(target: ModelShape, source: str) -> ModelShape:
    return target._replace(source=source, family=LlamaConfig, layers=1, drafted=32000)


PUBLIC: Mapping[str, Trio] = {
    "llama": Trio(_8B, _1B, _head(_8B, "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")),
    "qwen": Trio(_4B, _SMALL, _head(_4B, "a head as for Llama 3.1")),
}


def _shrunk(shape: ModelShape, hidden: int, layers: int, drafted: int = 0) -> ModelShape:
    return shape._replace(
        source="tiny shapes",
        hidden=hidden,
        layers=layers,
        heads=4,
        kv_heads=2,
        head_dim=32,
        intermediate=2 * hidden,
        vocabulary=1536,
        drafted=drafted,
    )


TINY_SHAPES = {  # the same families in sizes for tests
    key: Trio(_shrunk(target, 128, 6), _shrunk(draft, 64, 2), _shrunk(head, 128, 1, 1024))
    for key, (target, draft, head) in PUBLIC.items()
}
