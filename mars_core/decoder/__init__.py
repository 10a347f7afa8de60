"""The transformer as decoding needs it: weights laid out once, layers without detours, a cache in memory that is taken once.

``prepare`` is called once a model; ``open_cache`` once a run. Knows models and token ids; no drafts, rules or text.
"""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedModel

from mars_core.decoder.cache import ModelCache, input_embedding, synchronise
from mars_core.decoder.direct_cache import DirectCache, is_direct
from mars_core.decoder.modules_cache import ModulesCache
from mars_core.decoder.prepare import prepare

__all__ = ["ModelCache", "input_embedding", "open_cache", "prepare", "synchronise"]


def open_cache(model: PreTrainedModel, tokens: int, nodes: int = 0, taps: Sequence[int] = ()) -> ModelCache:
    """An empty cache for a text of ``tokens`` and ``nodes`` drafted tokens beside it: over the model's fast layers, where
    ``prepare`` gave it some. ``taps``: layers whose inputs are kept."""
    return (DirectCache if is_direct(model) else ModulesCache)(model, tokens, nodes, taps)
