"""The transformer for decoding: packed weights, fused layers and a preallocated key/value cache.

``prepare`` is called once per model, ``open_cache`` once per run.
"""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedModel

from mars_core.decoder.cache import (
    ANY_SHAPE,
    KERNELS,
    CacheSize,
    ModelCache,
    PassShapes,
    has_kernels,
    input_embedding,
    synchronise,
)
from mars_core.decoder.fast_cache import FastCache, is_fast
from mars_core.decoder.modules_cache import ModulesCache
from mars_core.decoder.packing import rounding
from mars_core.decoder.prepare import prepare

__all__ = [
    "ANY_SHAPE",
    "KERNELS",
    "CacheSize",
    "ModelCache",
    "PassShapes",
    "has_kernels",
    "input_embedding",
    "is_fast",
    "open_cache",
    "prepare",
    "rounding",
    "synchronise",
]


def open_cache(
    model: PreTrainedModel, size: CacheSize, feature_layers: Sequence[int] = ()
) -> ModelCache:
    """Return an empty cache, which uses the fast layers where ``prepare`` installed them.
    ``feature_layers``: layers whose inputs are recorded."""
    return (FastCache if is_fast(model) else ModulesCache)(model, size, feature_layers)
