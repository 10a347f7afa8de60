"""Total variation and KL divergence between the distribution P of the token after a node and the
target's p.

``distances`` compares full distributions, on the device (sampled drafts). On a greedy draft a rule
decides how much P has of each drafted token, and the rest goes where ``Rest`` says: both distances
are computed from a few numbers per node, on the host (``shift``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum

import torch
from torch import Tensor

_ROUNDING = 1e-12


def distances(distribution: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """TV and KL(P‖p) in nats, each [N], of P and p [N, V], float64."""
    terms = torch.where(distribution > 0, distribution * (distribution / p).log(), 0.0)
    return 0.5 * row_sums((distribution - p).abs()), row_sums(terms).clamp(min=0)


def row_sums(values: Tensor) -> Tensor:
    """Sums over the last dimension, [N, V] → [N]. The sum of a single row would be divided among
    threads, and so rounded otherwise."""
    return values.expand(2, -1).sum(-1)[:1] if len(values) == 1 else values.sum(-1)


def unknown(nodes: Tensor) -> dict[str, Tensor]:
    """TV and KL after the nodes, like ``nodes`` in shape, where P is not known."""
    return dict.fromkeys(("tv", "kl"), torch.full_like(nodes, torch.nan))


class Rest(IntEnum):
    """Where the rest of P goes."""

    OTHERS = 0  # to p without the drafted tokens
    ALL = 1  # to p itself
    ONE = 2  # to the token that is emitted


def mass(
    children: Mapping[float, tuple[float, float]], rest: Rest, emit: float, token: float, p: float
) -> float:
    """P of a token; arguments as those of ``shift``, ``p``: of the token."""
    left, missed = _left(children)
    share, goes_on = children[token][0] if token in children else 0.0, token not in children
    if rest is Rest.ONE:
        return share + left * (token == emit)
    if rest is Rest.ALL:
        return share + left * p
    return left * p / missed if goes_on and missed else share


def overshoot(
    children: Mapping[float, tuple[float, float]], rest: Rest, emit: float, emit_p: float
) -> float:
    """The largest P/p of any token; infinite where only p is 0."""
    left, missed = _left(children)
    weights = [(mass(children, rest, emit, id_, p), p) for id_, (_, p) in children.items()]
    if rest is Rest.ONE:
        weights += [] if emit in children else [(left, emit_p)]
    else:
        weights += [(left, missed if rest is Rest.OTHERS else 1.0)] if missed or left else []
    return max((of_p / p if p else math.inf for of_p, p in weights if of_p), default=math.nan)


def _left(children: Mapping[float, tuple[float, float]]) -> tuple[float, float]:
    """What P and p have for tokens that are not children."""
    shares, p = zip(*children.values(), strict=True) if children else ((), ())
    return _rest(sum(shares)), _rest(sum(p))


def shift(
    children: Mapping[float, tuple[float, float]], rest: Rest, emit: float, emit_p: float
) -> tuple[float, float]:
    """TV and KL(P‖p) in nats after a node. ``children``: P and p of each drafted token, by id;
    ``emit``: the token emitted if none is accepted, and its p."""
    pairs = list(children.values())
    left, missed = _left(children)
    if rest is Rest.OTHERS:
        return _distance(pairs, abs(left - missed), _kl(left, missed))
    if rest is Rest.ALL:
        mixed = [(share + left * p, p) for share, p in pairs]
        return _distance(mixed, missed * (1 - left), missed * _xlogy(left, left))
    if emit in children:
        pointed = [(share + left * (id_ == emit), p) for id_, (share, p) in children.items()]
        return _distance(pointed, missed, 0.0)
    return _distance(pairs, abs(left - emit_p) + max(0.0, missed - emit_p), _kl(left, emit_p))


def _distance(
    pairs: Sequence[tuple[float, float]], others: float, others_kl: float
) -> tuple[float, float]:
    """Half the sum of the differences, and the divergence, of pairs (P, p); ``others``: the
    contribution of tokens that are not drafted."""
    tv = (sum(abs(share - p) for share, p in pairs) + others) / 2
    return tv, max(0.0, sum(_kl(share, p) for share, p in pairs) + others_kl)


def _rest(mass: float) -> float:
    """1 − mass, or 0 if it is within rounding."""
    rest = 1 - mass
    return rest if rest > _ROUNDING else 0.0


def _kl(share: float, p: float) -> float:
    """P ln(P/p); 0 where P is, infinite where only p is 0."""
    return _xlogy(share, share) - _xlogy(share, p)


def _xlogy(x: float, y: float) -> float:
    if x == 0:
        return 0.0
    return x * math.log(y) if y > 0 else -math.inf
