"""Checks that the engine computes the same logits as the model, and can roll back rejected tokens,
before a pair is used.

First the configuration is checked. Then ``reference_logits`` stores logits of the model as loaded,
and how far rounding moves them: on text that a model was not trained for, a sound one may differ
from itself in bfloat16. ``check`` reads the same tokens as the engine does: a prompt, a chain with
some rejected tokens, and a tree with one accepted branch. It does so with two sets of rejected
tokens, which must make no difference however much is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from mars_core.decoder import (
    ANY_SHAPE,
    CacheSize,
    ModelCache,
    PassShapes,
    input_embedding,
    open_cache,
    rounding,
)
from mars_core.models.errors import ModelError, is_out_of_memory
from mars_core.verification import ancestors

_KNOWN_LAYERS = {"full_attention", "sliding_attention"}
_PROMPT, _BLOCK, _DROPPED = 12, 6, 4  # tokens
_WINDOW = 8  # sliding windows are narrowed to this, so that a short text exceeds them
# Root mean square difference of the logits after a token, in standard deviations, that is always
# allowed. A wrong cache gives about 1.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.15}
FAILURES = (
    TypeError,
    ValueError,
    RuntimeError,
    AttributeError,
    IndexError,
    NotImplementedError,
    AssertionError,
)


class ProbeTrial(NamedTuple):
    """The first tokens of a text, and their logits by the model as loaded, in one pass without a
    cache."""

    name: str  # of the model
    ids: Tensor  # [N]
    logits: Tensor  # [N, V]
    rounding: float  # by which they differ if every module's output is one rounding step off


def check_config(config: PreTrainedConfig, name: str) -> None:
    """Raises ModelError for encoder-decoder models and for layers that do not keep every key. Call
    it before a model is built, because some models overwrite parts of their configuration."""
    if config.is_encoder_decoder:
        raise _refusal(name, "it is an encoder-decoder model")
    layers = getattr(config.get_text_config(decoder=True), "layer_types", None) or []
    foreign = sorted({str(layer) for layer in layers} - _KNOWN_LAYERS)
    if foreign:
        raise _refusal(name, f"it has layers of the kind {foreign[0]}")


def check_class(model: PreTrainedModel, name: str) -> None:
    """Raises ModelError for a recurrent model; its weights may be missing."""
    if getattr(model, "_is_stateful", False):
        raise _refusal(name, "it carries a recurrent state")


@torch.no_grad()
def reference_logits(model: PreTrainedModel, text: Tensor, name: str) -> ProbeTrial:
    """Compute the reference logits of an unmodified model on token ids [n] of a text. Raises
    ModelError if they are not finite."""
    config = model.config.get_text_config(decoder=True)
    length = min(_PROMPT + 2 * _BLOCK, getattr(config, "max_position_embeddings", None) or 2048)
    ids = text[: max(2, length)].to(input_embedding(model).weight.device)
    with _narrowed(model):
        logits: Tensor = model(input_ids=ids[None], use_cache=False).logits[0].float()
        if not torch.isfinite(logits).all():
            raise ModelError(
                f"{name} computes logits that are not finite: its weights or its dtype do not fit; "
                "try float32."
            )
        with _rounded(model):
            moved: Tensor = model(input_ids=ids[None], use_cache=False).logits[0].float()
    return ProbeTrial(name, ids, logits, max(map(_difference, moved, logits)))


@contextmanager
def _rounded(model: PreTrainedModel) -> Iterator[None]:
    """Keep every number that a module without parts returns, or move it by one rounding step."""
    source = torch.Generator().manual_seed(0)

    def move(_module: nn.Module, _args: Any, output: Any) -> Any:
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return output
        steps = torch.randint(-1, 2, output.shape, generator=source).to(output.device)
        return output * (1 + steps * torch.finfo(output.dtype).eps).to(output.dtype)

    handles = [
        module.register_forward_hook(move)
        for module in model.modules()
        if next(module.children(), None) is None
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def check(
    model: PreTrainedModel, trial: ProbeTrial, *, shapes: PassShapes = ANY_SHAPE, trees: bool
) -> None:
    """Raises ModelError if the engine's passes over ``model`` differ from the reference logits, or
    depend on tokens that were rolled back."""
    ids = trial.ids
    try:
        read, other = (
            _in_steps(model, ids, refused, shapes, trees)
            for refused in (ids[:_DROPPED], ids.flip(0)[:_DROPPED])
        )
    except FAILURES as failure:
        if is_out_of_memory(failure):
            raise
        raise _refusal(
            trial.name, "its forward pass does not work with a cache that is rolled back"
        ) from failure
    quantised = (
        getattr(model, "hf_quantizer", None) is not None
    )  # may compute in half precision, whatever the dtype
    allowed = _TOLERANCE.get(
        torch.bfloat16 if quantised else rounding(model), _TOLERANCE[torch.bfloat16]
    )
    if not (trace := max(map(_difference, read, other))) <= allowed:
        raise _refusal(
            trial.name,
            f"tokens that were rolled back move its later logits by {trace:.2g} standard deviations",
        )
    error = max(map(_difference, read, trial.logits[-len(read) :]))
    if not error <= max(allowed, trial.rounding):
        raise _refusal(
            trial.name,
            f"after a rollback its logits are {error:.2g} standard deviations off those of one "
            f"pass, and rounding alone moves them by {trial.rounding:.2g}",
        )


@torch.no_grad()
def _in_steps(
    model: PreTrainedModel, ids: Tensor, refused: Tensor, shapes: PassShapes, trees: bool
) -> Tensor:
    """Logits [n, V] after the last n of ids [N], read in steps that reject tokens ``refused``."""
    last = len(ids)
    with _narrowed(model):
        cache = open_cache(model, CacheSize(last, _BLOCK + 1, shapes))
        start = max(1, last - 2 * _BLOCK)
        cache.read(ids[:start])
        rows = [_chain(cache, ids[start : start + _BLOCK], refused, start)]
        start = min(start + _BLOCK, last)
        if trees and start + 3 <= last:
            rows.append(_branch(cache, ids[start : start + 3], refused[0], start))
            start += 3
        if start < last:
            rows.append(cache.forward(ids[start:], start))
    return torch.cat(rows)


def _chain(cache: ModelCache, ids: Tensor, refused: Tensor, start: int) -> Tensor:
    """Logits [n, V] after ids [n], the last ones of which replace ``refused`` ones."""
    most = max(0, len(ids) - _DROPPED)
    first = cache.forward(torch.cat([ids[:most], refused[: len(ids) - most]]), start)[:most]
    return torch.cat([first, cache.forward(ids[most:], start + most)])


def _branch(cache: ModelCache, ids: Tensor, refused: Tensor, start: int) -> Tensor:
    """Logits [3, V] after ids [3] as a branch of a tree, whose cache entries are then moved to the
    positions of a chain. The other branch is one refused token."""
    parents, path = (
        torch.tensor([0, 0, 2], device=ids.device),
        torch.tensor([0, 2, 3], device=ids.device),
    )
    nodes, depths = (
        torch.stack([ids[0], refused, ids[1], ids[2]]),
        torch.tensor([0, 1, 1, 2], device=ids.device),
    )
    logits = cache.forward_tree(nodes, start, depths, ancestors(parents, 2))
    cache.move(path + start, torch.arange(start, start + 3, device=ids.device))
    return logits[path]


@contextmanager
def _narrowed(model: PreTrainedModel) -> Iterator[None]:
    """Narrows sliding windows, if any, to a few tokens."""
    config: Any = model.config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None)
    if window is None:
        yield
        return
    config.sliding_window = min(window, _WINDOW)
    try:
        yield
    finally:
        config.sliding_window = window


def _difference(computed: Tensor, wanted: Tensor) -> float:
    """Root mean square difference in standard deviations of the wanted logits; 0 for constant equal
    ones."""
    difference = (computed.double() - wanted.double()).square().mean().sqrt()
    return float(difference / wanted.double().std().clamp_min(1e-12))


def _refusal(name: str, reason: str) -> ModelError:
    return ModelError(
        f"{name} cannot be used for speculative decoding: {reason}, so refused tokens could not "
        "be taken back exactly; choose a model with plain or sliding-window attention."
    )
