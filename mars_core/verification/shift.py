"""The shift meter on greedy drafts: total variation and KL divergence between the law P of the token after a node and p.

A rule decides how much P has of each drafted token; what is left goes where ``Rest`` says. So both distances follow from a few numbers
a node, on the host. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

_ROUNDING = 1e-12


class Rest(IntEnum):
    """Where the rest of P goes."""

    OTHERS = 0  # to p without the drafted tokens
    ALL = 1  # to p itself
    ONE = 2  # to the token that is emitted


class Child(NamedTuple):
    """A drafted token after a node."""

    id: float
    p: float
    share: float  # what P has of it


def shift(children: Sequence[Child], rest: Rest, emit: float, emit_p: float) -> tuple[float, float]:
    """TV and KL(P‖p) in nats after a node with distinct ``children``; ``emit``: the token emitted if none is kept, and its p."""
    left, missed = _rest(sum(child.share for child in children)), _rest(sum(child.p for child in children))
    laws = [(child.share, child.p) for child in children]
    if rest is Rest.OTHERS:
        return _distance(laws, abs(left - missed), _kl(left, missed))
    if rest is Rest.ALL:
        mixed = [(share + left * p, p) for share, p in laws]
        return _distance(mixed, missed * (1 - left), missed * _xlogy(left, left))
    if any(child.id == emit for child in children):
        pointed = [(child.share + left * (child.id == emit), child.p) for child in children]
        return _distance(pointed, missed, 0.0)
    return _distance(laws, abs(left - emit_p) + max(0.0, missed - emit_p), _kl(left, emit_p))


def _distance(laws: Sequence[tuple[float, float]], others: float, others_kl: float) -> tuple[float, float]:
    """Half the sum of the differences, and the divergence, of pairs (P, p); ``others``: what the tokens not drafted add."""
    tv = (sum(abs(law - p) for law, p in laws) + others) / 2
    return tv, max(0.0, sum(_kl(law, p) for law, p in laws) + others_kl)


def _rest(mass: float) -> float:
    """1 − mass, where it is more than rounding."""
    rest = 1 - mass
    return rest if rest > _ROUNDING else 0.0


def _kl(law: float, p: float) -> float:
    """P ln(P/p); 0 where P is, infinite where only p is 0."""
    return _xlogy(law, law) - _xlogy(law, p)


def _xlogy(x: float, y: float) -> float:
    if x == 0:
        return 0.0
    return x * math.log(y) if y > 0 else -math.inf
