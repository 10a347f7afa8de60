"""Rules that look ahead along a chain: a mismatch is relaxed only if the drafted tokens after it
pass strict's test."""

from __future__ import annotations

import torch
from torch import Tensor


def window_keep(matches: Tensor, passes: Tensor, gate: Tensor, window: int) -> Tensor:
    """keep [N]: matches, and mismatches that pass the gate and are followed by ``window`` passing
    tokens, and these tokens. All bool [N]: whether each drafted token is the target's draw;
    whether it passes a separate test, with a uniform that no later step reuses (the tests of a
    rejected window must not decide twice); whether a mismatch there may be relaxed."""
    relaxable = gate & ~matches & (window_chance(passes.double(), window) > 0)
    forced = torch.zeros((), dtype=torch.long, device=matches.device)
    keep = []
    for accepted, relaxed in zip(matches, relaxable, strict=True):
        begins = relaxed & (forced == 0)
        keep.append(accepted | begins | (forced > 0))
        forced = torch.where(begins, window, (forced - 1).clamp(min=0))
    return torch.stack(keep) if keep else matches


def window_chance(p: Tensor, window: int) -> Tensor:
    """[N]: the probability, before any draw, that the window after each drafted token will pass; p
    [N] of the drafted tokens. The product over the ``window`` values after each; 0 where there are
    fewer."""
    if len(p) <= window:
        return torch.zeros_like(p)
    return torch.cat([p[1:].unfold(0, window, 1).prod(-1), p.new_zeros(window)])


def window_shares(p: Tensor, gate: Tensor, window: int) -> Tensor:
    """Q [N]: probability of each drafted token given the text before it. p, gate: [N] float64. The
    text alone does not determine whether the previous token was the target's or relaxed, which
    forces the ones after it. So this follows the weight of each state: w more tokens are forced, w
    = 0 … window."""
    relaxed = (1 - p) * gate * window_chance(p, window)
    states = (torch.arange(window + 1, device=p.device) == 0).to(p.dtype)
    shares = []
    for match, more in zip(p, relaxed, strict=True):
        after = torch.cat([states[1:], states.new_zeros(1)])
        after[0] += states[0] * match
        after[window] += states[0] * more
        mass = after.sum()
        shares.append(mass)
        states = torch.where(mass > 0, after / mass, states)
    return torch.stack(shares) if shares else p
