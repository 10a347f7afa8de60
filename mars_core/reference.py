"""Speculative decoding with margin-aware verification (MARS, 2601.15498), on one page and without
caches, batches or telemetry.

The engine writes the same tokens for draft models (rules ``strict`` and ``mars``): read this first.
V is the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.sampling import Use, noise, words


@torch.inference_mode()
def decode(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    prompt: Sequence[int],
    new: int,
    *,
    k: int = 5,
    theta: float = 1.0,
    temperature: float = 0.0,
    seed: int = 0,
    ends: Collection[int] = (),
) -> list[int]:
    """Return at most ``new`` token ids after ``prompt``, up to the first one in ``ends``.
    ``theta``: a drafted token that is one of the target's two best is accepted where z₂/z₁ > θ; 1
    is strict verification, whose text is the target's."""
    ids = list(prompt)
    while len(ids) - len(prompt) < new:
        # 1. The draft model proposes up to k tokens, one after the other.
        drafted = list(ids)
        for _ in range(min(k, new - (len(ids) - len(prompt)) - 1)):
            drafted.append(
                choose(_logits(draft, drafted)[-1], temperature, seed, len(drafted) - len(prompt))
            )
        # 2. One pass of the target gives the logits after the last token and after each drafted one.
        rows = _logits(target, drafted)[len(ids) - 1 :]
        # 3. A drafted token is accepted if the target chooses it itself, or if the rule relaxes it.
        for proposed, z in zip_longest(drafted[len(ids) :], rows):
            choice = choose(z, temperature, seed, len(ids) - len(prompt))
            accepted = proposed == choice or (proposed is not None and relaxes(z, proposed, theta))
            ids.append(proposed if accepted else choice)
            if ids[-1] in ends:
                return ids[len(prompt) :]
            if not accepted:
                break
    return ids[len(prompt) :]


def choose(z: Tensor, temperature: float, seed: int, position: int) -> int:
    """Return the most likely token of logits z [V] or, above temperature 0, a draw from
    softmax(z/T): the token with the largest p/E, where E is exponential noise that depends on seed,
    output position and token id only. Draft and target use the same noise, so that they mostly draw
    the same token."""
    if temperature == 0:
        return int(z.argmax())
    key = torch.tensor([words(seed, position, 1)[Use.DRAW]])
    return int(((z / temperature).softmax(-1) / noise(key, len(z))[0]).argmax())


def relaxes(z: Tensor, token: int, theta: float) -> bool:
    """Return whether ``token`` is one of the two best of logits z [V], and these nearly tie."""
    (first, second), best = z.topk(2)
    return bool(first > 0 and second / first > theta and token in best.tolist())


def _logits(model: PreTrainedModel, ids: Sequence[int]) -> Tensor:
    """Return [tokens, V]."""
    output: Tensor = model(torch.tensor([ids])).logits[0].float()
    return output
