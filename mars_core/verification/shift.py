"""What the distribution P of an emitted token makes of the target's p, on the device: the columns
``tv``, ``kl`` and ``overshoot`` after each node, and ``mass`` of each token, all float64.

On greedy drafts with children x₁ … x_m the target's probability of xᵢ is pᵢ and the rule's share is
Qᵢ; the rest of P goes to other tokens in proportion to p, to p itself, or to one token. So the
distances follow from a few numbers per node. On other drafts P is computed in full."""

from __future__ import annotations

import torch
from torch import Tensor

from mars_core.verification.case import Case
from mars_core.verification.children import Children

Shift = dict[str, Tensor]  # by column
_ROUNDING = 1e-12


def no_shift(case: Case, emit: Tensor) -> Shift:
    """Return that of P = p."""
    zero, p = torch.zeros_like(case.target.uniform), case.target.p_of(case.draft, emit)
    return {"tv": zero, "kl": zero, "overshoot": zero + 1, "mass": p}


def unknown_shift(case: Case, emit: Tensor) -> Shift:
    """Return that of an unknown P."""
    return {name: column * torch.nan for name, column in no_shift(case, emit).items()}


def share_shift(
    case: Case,
    emit: Tensor,
    children: Children,
    shares: Tensor,
    *,
    single: bool,
    to_p: Tensor | None,
) -> Shift:
    """Compute that of greedy drafts. shares Q [N]; emit [P]: the tokens after the nodes of which no
    child is accepted. The rest of P goes to that token (``single``), to p itself after the nodes
    ``to_p``, bool [P], or to p without the children."""
    of_emitted = case.target.p_of(case.draft, emit)[case.draft.size :]
    emits = case.draft.x == children.at_parent(emit)
    missed, left = (_rest(1 - children.by_node(each)) for each in (children.p, shares))
    drafted = children.by_node(emits.double()) > 0  # the emitted token is a child
    base = missed  # p of the other tokens that P may have
    others = left  # P of them
    if single:
        shares = shares + children.at_parent(left) * emits * children.distinct
        base, others = torch.where(drafted, missed, of_emitted), torch.where(drafted, 0.0, left)
    elif to_p is not None:
        shares = shares + children.at_parent(left * to_p) * children.p
        others = torch.where(to_p, left * missed, left)
    apart = (others - base).abs() + (missed - base).clamp(min=0)
    emitted = others if single else (others / base * of_emitted).nan_to_num(0.0, posinf=0.0)
    of_child = children.by_node(shares * emits)
    kl = children.by_node(divergence(shares, children.p)) + divergence(others, base)
    ratios = children.most((shares / children.p).nan_to_num(nan=0.0, posinf=torch.inf))
    return {
        "tv": (children.by_node((shares - children.p).abs()) + apart) / 2,
        "kl": kl.clamp(min=0),
        "overshoot": ratios.maximum((others / base).nan_to_num(nan=0.0, posinf=torch.inf)),
        "mass": torch.cat([children.repeated(shares), torch.where(drafted, of_child, emitted)]),
    }


def _rest(mass: Tensor) -> Tensor:
    """Return 0 if it is within rounding."""
    return torch.where(mass > _ROUNDING, mass, 0.0)


def forgiven(accept: Tensor, strict: Tensor) -> Tensor:
    """Return the probability of relaxing what strict, which keeps it with this probability,
    rejects; 0 where it rejects nothing."""
    return ((accept - strict) / (1 - strict)).clamp(min=0).nan_to_num(0.0)


def divergence(share: Tensor, p: Tensor) -> Tensor:
    """P ln(P/p); 0 where P is, infinite where only p is 0."""
    return torch.xlogy(share, share) - torch.xlogy(share, p)
