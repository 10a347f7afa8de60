"""Whether a model's cache can be rolled back: what speculative decoding needs, and not every architecture allows.

First what its configuration says, then a small numeric trial. Knows nothing of drafts or rules.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from mars_core.models.errors import ModelError, is_out_of_memory

_KNOWN_LAYERS = {"full_attention", "sliding_attention"}
_PREFILL, _BLOCK, _DROPPED = 12, 6, 4  # tokens
_NARROW = 64  # a sliding window up to this many tokens is run past its end
# Largest root mean square difference, in standard deviations of the logits. A wrong cache gives about 1.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.25}


def check_config(config: PreTrainedConfig, name: str) -> None:
    """Refuses encoders and layers that do not keep every key. Raises ModelError.

    To be asked before a model is built, because some overwrite parts of their configuration.
    """
    if config.is_encoder_decoder:
        raise _refusal(name, "it is an encoder-decoder model")
    layers = getattr(config.get_text_config(decoder=True), "layer_types", None) or []
    foreign = sorted({str(layer) for layer in layers} - _KNOWN_LAYERS)
    if foreign:
        raise _refusal(name, f"it has layers of the kind {foreign[0]}")


def check_class(model: PreTrainedModel, name: str) -> None:
    """Refuses a recurrent model; its weights may be missing. Raises ModelError."""
    if getattr(model, "_is_stateful", False):
        raise _refusal(name, "it carries a recurrent state")


def probe(model: PreTrainedModel, name: str) -> None:
    """Prefill, a block of tokens, a rollback, other tokens: the logits must be a fresh pass's. Raises ModelError."""
    ids = _random_ids(model)
    with torch.no_grad():
        cached, fresh = _continued(model, ids, name), _logits(model, ids)
    if not torch.isfinite(fresh).all():
        raise ModelError(
            f"{name} computes logits that are not finite: its weights or its dtype do not fit; try float32."
        )
    error = _difference(cached, fresh[-cached.shape[0] :])
    if not error <= _TOLERANCE.get(model.dtype, 0.25):
        raise _refusal(name, f"after a rollback its logits are off by {error:.2g} standard deviations")


def _random_ids(model: PreTrainedModel) -> Tensor:
    """[1, N] on the model's device; N passes the sliding window where that is narrow, and stays within the context."""
    config = model.config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None) or 0
    context = getattr(config, "max_position_embeddings", None) or 2048
    length = _PREFILL + _BLOCK + (window if window <= _NARROW else 0)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(config.vocab_size, (1, max(2, min(length, context))), generator=generator)
    return ids.to(model.device)


def _continued(model: PreTrainedModel, ids: Tensor, name: str) -> Tensor:
    """[M, V]: logits of the last M tokens of ``ids``, reached over wrong tokens that were rolled back."""
    cache = DynamicCache()
    block = min(_BLOCK, ids.shape[1] - 1)
    dropped = min(_DROPPED, block)
    wrong = ids.clone()
    wrong[:, -dropped:] = (wrong[:, -dropped:] + 1) % model.config.get_text_config(decoder=True).vocab_size
    try:
        model(input_ids=ids[:, :-block], past_key_values=cache, use_cache=True)
        model(input_ids=wrong[:, -block:], past_key_values=cache, use_cache=True)
        cache.crop(-dropped)
        logits: Tensor = model(input_ids=ids[:, -dropped:], past_key_values=cache, use_cache=True).logits[0]
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, NotImplementedError) as error:
        if is_out_of_memory(error):
            raise
        raise _refusal(name, "its forward pass does not work with a cache that is rolled back") from error
    return logits


def _logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    logits: Tensor = model(input_ids=ids, use_cache=False).logits[0]  # [N, V]
    return logits


def _difference(cached: Tensor, fresh: Tensor) -> float:
    """Root mean square difference in standard deviations of the fresh logits; 0 for constant equal ones."""
    difference = (cached.double() - fresh.double()).square().mean().sqrt()
    return float(difference / fresh.double().std().clamp_min(1e-12))


def _refusal(name: str, reason: str) -> ModelError:
    return ModelError(
        f"{name} cannot be used for speculative decoding: {reason}, so refused tokens could not be taken back exactly; "
        "choose a model with plain or sliding-window attention."
    )
