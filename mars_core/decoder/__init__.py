"""The transformer as decoding needs it: weights laid out once, layers without detours, a cache in memory that is taken once.

``prepare`` is called once a model; ``open_cache`` once a run. Knows models and token ids; no drafts, rules or text.
"""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedModel

from mars_core.decoder.cache import ModelCache, Room, input_embedding, synchronise
from mars_core.decoder.fast_cache import FastCache, is_fast
from mars_core.decoder.modules_cache import ModulesCache
from mars_core.decoder.prepare import prepare

__all__ = ["ModelCache", "Room", "input_embedding", "is_fast", "open_cache", "prepare", "synchronise"]


def open_cache(model: PreTrainedModel, room: Room, taps: Sequence[int] = ()) -> ModelCache:
    """An empty cache: over the model's fast layers, where ``prepare`` gave it some. ``taps``: layers whose inputs are kept."""
    return (FastCache if is_fast(model) else ModulesCache)(model, room, taps)
