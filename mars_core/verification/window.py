"""Rules that look ahead along a chain: a mismatch is relaxed only if the drafted tokens after it
pass strict's test. N drafted tokens, of one text or of several in a dimension [A, N]."""

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
    for accepted, relaxed in zip(matches.unbind(-1), relaxable.unbind(-1), strict=True):
        begins = relaxed & (forced == 0)
        keep.append(accepted | begins | (forced > 0))
        forced = torch.where(begins, window, (forced - 1).clamp(min=0))
    return torch.stack(keep, -1) if keep else matches


def window_chance(p: Tensor, window: int) -> Tensor:
    """Return [N]: the probability, before any draw, that the window after each drafted token will
    pass; p [N] of the drafted tokens. The product over the ``window`` values after each; 0 where
    there are fewer."""
    if p.shape[-1] <= window:
        return torch.zeros_like(p)
    after = p[..., 1:].unfold(-1, window, 1).prod(-1)
    return torch.nn.functional.pad(after, (0, window))


def window_shares(p: Tensor, gate: Tensor, window: int) -> Tensor:
    """Q [N]: probability of each drafted token given the text before it. p, gate: [N] float64. The
    text alone does not determine whether the previous token was the target's or relaxed, which
    forces the ones after it. So this follows the weight of each state: w more tokens are forced, w
    = 0 … window."""
    relaxed = (1 - p) * gate * window_chance(p, window)
    states = (torch.arange(window + 1, device=p.device) == 0).to(p.dtype).expand(*p.shape[:-1], -1)
    shares = []
    for match, more in zip(p.unbind(-1), relaxed.unbind(-1), strict=True):
        after = torch.nn.functional.pad(states[..., 1:], (0, 1))
        after[..., 0] += states[..., 0] * match
        after[..., window] += states[..., 0] * more
        mass = after.sum(-1)
        shares.append(mass)
        states = torch.where(mass[..., None] > 0, after / mass[..., None], states)
    return torch.stack(shares, -1) if shares else p
