"""The shift meter on greedy drafts: total variation and KL divergence between the law of the token after each node and p."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mars_core.rules.base import Rule
from mars_core.verification.decision import Places

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Children:
    """The drafted tokens as children of their nodes. float64 unless said otherwise."""

    parents: Tensor  # [N] long
    before: Tensor | None  # bool [N, N]: the column's node is a sibling judged before the row's; None in a chain
    fresh: Tensor  # [N] 0 for a sibling that repeats an earlier one, else 1
    p: Tensor  # [N] p of each; 0 where it is not fresh
    count: int  # nodes, the root included

    def sum(self, values: Tensor) -> Tensor:
        """Sums over the children of each node, [..., N] → [..., N + 1]."""
        if self.before is None:
            return nn.functional.pad(values, (0, 1))
        return values.new_zeros(*values.shape[:-1], self.count).index_add_(-1, self.parents, values)

    def sum_before(self, values: Tensor) -> Tensor:
        """Sums over the siblings judged before each, [N] → [N]."""
        return torch.zeros_like(values) if self.before is None else (self.before * values).sum(-1)

    def product_before(self, values: Tensor) -> Tensor:
        """Products over the siblings judged before each, [N] → [N]."""
        return torch.ones_like(values) if self.before is None else torch.where(self.before, values, 1.0).prod(-1)


def law_shift(
    children: Children, law: Tensor, rule: Rule, redraws: Tensor | None, places: Places, emit: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """TV and KL(P‖p) in nats, each [N + 1]. ``law`` [N] is P of the drafted tokens; the rest of P goes where the rule sends it."""
    p = children.p
    mass, mass_p, distance, divergence = children.sum(torch.stack([law, p, (law - p).abs(), _kl(law, p)]))
    left, missed = _rest(mass), _rest(mass_p)  # what P and p have for the tokens that are not drafted
    if rule.emits_top1 or (rule.aim is not None and places.greedy):
        return _towards_one(children, law, left, missed, places, emit, x)
    tv, kl = (distance + (left - missed).abs()) / 2, (divergence + _kl(left, missed)).clamp(min=0)
    if redraws is None:
        return tv, kl
    mixed = law + left[children.parents] * p
    distance, divergence = children.sum(torch.stack([(mixed - p).abs(), _kl(mixed, p)]))
    tv_mixed, kl_mixed = (distance + missed * (1 - left)) / 2, divergence + missed * torch.xlogy(left, left)
    return torch.where(redraws, tv_mixed, tv), torch.where(redraws, kl_mixed, kl)


def _towards_one(
    children: Children, law: Tensor, left: Tensor, missed: Tensor, places: Places, emit: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Where all that is left goes to one token, ``emit``."""
    p, single = children.p, places.law.gather(-1, emit[:, None])[:, 0].double()
    drafted = (x == emit[children.parents]) * children.fresh
    law = law + left[children.parents] * drafted
    found, distance, divergence = children.sum(torch.stack([drafted, (law - p).abs(), _kl(law, p)]))
    beside = 1 - found  # 1 where the one token is not drafted
    others = (missed - beside * single).clamp(min=0)
    return (distance + beside * (left - single).abs() + others) / 2, divergence + _kl(beside * left, single)


def _rest(mass: Tensor) -> Tensor:
    """1 − mass, where it is more than rounding."""
    rest = 1 - mass
    return torch.where(rest > _ROUNDING, rest, 0.0)


def _kl(law: Tensor, p: Tensor) -> Tensor:
    """P ln(P/p) term by term; 0 where P is."""
    return torch.xlogy(law, law) - torch.xlogy(law, p)
