"""From logits to distributions and from distributions to tokens: warpers, inverse CDF, residual, uniforms.

Filtering (``target_distribution``) and drawing (``draw``) are separate; a residual is never filtered again.
"""

from __future__ import annotations

import random
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.types import Sampling


class Use(IntEnum):
    """The use of each uniform of a position: a column of ``step_uniforms``."""

    DRAW = 0  # the target's own token, or the correction
    ACCEPT = 1  # keep or reject
    DRAFT = 2  # sampled drafts: the drafter's token


def uniforms(seed: int, count: int) -> Tensor:
    """The drawing uniforms in [0, 1), float64 [count]: number i belongs to output position i, independent of ``count``."""
    source = random.Random(seed)
    return torch.tensor([source.random() for _ in range(count)], dtype=torch.float64)


def step_uniforms(draws: Tensor, seed: int, position: int, count: int) -> Tensor:
    """float64 [count, 3] for a step whose first token has output position ``position``; ``draws`` as returned by ``uniforms``. Only the
    drawing uniform is indexed by output position. A rule may read the other two at positions that the step does not reach (block
    verification, a window) and must not reuse them in the next step, so they depend on the step."""
    source = random.Random(f"{seed}/{position}")
    others = torch.tensor([[source.random(), source.random()] for _ in range(count)], dtype=torch.float64)
    return torch.cat([draws[position : position + count, None], others], -1)


def lowest_argmax(logits: Tensor) -> Tensor:
    """Index of the largest logit of each row, ties to the lowest index: [N, V] → [N]."""
    return logits.argmax(-1)  # documented to give the first of equal maxima


def target_distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """p [N, V] from raw logits [N, V], with transformers' warpers: temperature, top-k (ties kept), top-p. Temperature 0 is one-hot p,
    at the lowest of equal maxima."""
    if sampling.temperature == 0:
        return torch.zeros_like(logits).scatter_(-1, lowest_argmax(logits)[:, None], 1.0)
    logits = logits / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        least = logits.topk(sampling.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if sampling.top_p < 1:
        ordered, ids = logits.sort(-1)
        dropped = ordered.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        dropped[:, -1].fill_(False)
        logits = logits.masked_fill(torch.zeros_like(dropped).scatter_(-1, ids, dropped), -torch.inf)
    return logits.softmax(-1)


def displayed_distribution(logits: Tensor, p: Tensor, sampling: Sampling) -> Tensor:
    """The distribution shown beside a token, [N, V]: p itself; at temperature 0, where p is one-hot, softmax(z)."""
    return logits.softmax(-1) if sampling.temperature == 0 else p


class Draws(NamedTuple):
    """Tokens sampled from distributions by uniforms."""

    ids: Tensor  # [N]
    u: Tensor  # [N] float64, times the sum of the distribution
    cdf: Tensor  # [N, V] float64


def draw(distribution: Tensor, u: Tensor) -> Draws:
    """Inverse CDF in id order: distribution [N, V], u [N]. An id of probability 0 is never drawn. The cumulative sum is float64."""
    cdf = distribution.cumsum(-1, dtype=torch.float64)
    total = cdf[:, -1:]
    below = total * (1 - torch.finfo(torch.float64).eps)  # u · total may be rounded up to total, beyond the last token
    wanted = torch.minimum(u[:, None] * total, below)
    ids = torch.searchsorted(cdf, wanted, right=True).clamp(max=distribution.shape[-1] - 1)  # out of range only for nan
    return Draws(ids[:, 0], wanted[:, 0], cdf)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """norm((p − q)₊) row by row, [N, V]; p itself where the residual is zero (p = q)."""
    rest = (p - q).clamp(min=0)
    mass = rest.sum(-1, keepdim=True)
    return torch.where(mass > 0, rest / mass.clamp(min=torch.finfo(rest.dtype).tiny), p)
