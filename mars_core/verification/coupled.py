"""TV and KL of coupled drafts: the drafted token x and the target's own token y are drawn with the same noise.

With exponential noise E, x = argmin E/q and y = argmin E/p. Let w = p/(p + q), N(w) = Σᵢ max(qᵢ·w, pᵢ·(1 − w)) and G(w) = ∫₀ʷ dv/N(v)².
Then P(x = a, y = b) = qₐ·p_b·(G(w_b) − G(wₐ))₊ for a ≠ b. A rule that keeps x = a with probability fₐ where y ≠ a moves this share
of the probability from b to a.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from mars_core.rules.base import Evidence, Reach, Rule
from mars_core.verification.draft import Draft, Places
from mars_core.verification.sampled import shift_of, whole_vocabulary

CELLS = 1024  # N is exact at w = 0, 1/CELLS, … 1, and linear between: an error of G below 4/CELLS². G is linear too: 2/CELLS² more
_FIXED = 2.0**52  # probabilities are added as integers, which gives the same sum in any order


def coupled_shift(places: Places, draft: Draft, rule: Rule, values: Mapping[str, float]) -> dict[str, Tensor]:
    """The columns tv and kl after all nodes. nan where the distribution of the emitted token is not known: after drafted tokens for
    a rule that may relax more than the two best tokens; and everywhere in trees and for rules that look ahead, since what is relaxed there
    depends on the noise of later positions."""
    # p of the token that always follows a node, 1 if that is drawn from p
    end = places.coin.new_ones(draft.size + 1)
    if rule.emits_top1:
        end = places.p.gather(-1, places.top_ids[:, :1])[:, 0].double()
    if rule.relaxes == 0:
        return {"tv": 1 - end, "kl": 1 - end}
    if not draft.is_chain or not (rule.emits_top1 or rule.relaxes == 2):
        ahead = not draft.is_chain or rule.reach is Reach.WINDOW
        unknown = torch.full_like(end, torch.nan if ahead else 0.0).index_fill_(0, draft.parents, torch.nan)
        return {"tv": unknown + 1 - end, "kl": unknown - end.log()}
    evidence = whole_vocabulary(places, draft)
    p = evidence.distribution
    if rule.emits_top1:
        kept = evidence.q * rule.accept(evidence, values).clamp(0, 1)
        distribution = kept.scatter_add(-1, places.top_ids[: draft.size, :1], 1 - kept.sum(-1, keepdim=True))
    else:
        distribution = _relaxed(evidence, rule, values)
    return shift_of(distribution, p, end[draft.size :])


def _relaxed(evidence: Evidence, rule: Rule, values: Mapping[str, float]) -> Tensor:
    """P [N, V] under a rule that relaxes the two best tokens only."""
    p, q = evidence.distribution, evidence.q
    best = evidence.top_ids[:, :2].sort(-1).values
    candidates = replace(evidence, x=best, q=torch.ones_like(q[:, :1]).expand(-1, 2))
    accept, own = rule.accept(candidates, values).clamp(0, 1), p.gather(-1, best)
    weight = ((accept - own) / (1 - own)).clamp(min=0).nan_to_num(0.0) * q.gather(-1, best)  # fₐ·qₐ [N, 2]
    integral = joint_integral(p, q)
    ahead = (integral[:, None] - integral.gather(-1, best)[:, :, None]).clamp_(min=0)  # [N, 2, V]
    moved = ahead.mul_(weight[:, :, None]).mul_(p[:, None])
    return (p - moved[:, 0] - moved[:, 1]).scatter_add_(-1, best, moved.sum(-1))


def joint_integral(p: Tensor, q: Tensor) -> Tensor:
    """G of every token, [N, V], from p and q [N, V], float64, with an error of less than 6/CELLS²."""
    at = (p / (p + q).clamp(min=torch.finfo(p.dtype).tiny)).mul_(CELLS)
    cell = at.long().clamp_(max=CELLS - 1)
    both = torch.stack([p, q]).mul_(_FIXED).long()
    sums = both.new_zeros(2, len(p), CELLS + 1).scatter_add_(-1, (cell + 1).expand_as(both), both).cumsum(-1)
    of_p, of_q = sums.to(p.dtype).div_(_FIXED)  # of the tokens before each edge
    edges = torch.linspace(0, 1, CELLS + 1, dtype=p.dtype, device=p.device)
    n = torch.lerp(of_p[:, -1:] - of_p, of_q, edges)  # N at the edges
    area = torch.zeros_like(n)
    torch.cumsum((n[:, :-1] * n[:, 1:]).reciprocal_().div_(CELLS), -1, out=area[:, 1:])
    return torch.lerp(area.gather(-1, cell), area.gather(-1, cell + 1), at.sub_(cell))
