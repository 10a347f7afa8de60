"""TV and KL of coupled drafts: the drafted token x and the target's token y are drawn with the
same noise.

With exponential noise E, x = argmin E/q and y = argmin E/p. Let w = p/(p + q), N(w) = Σᵢ max(qᵢ·w,
pᵢ·(1 − w)) and G(w) = ∫₀ʷ dv/N(v)². Then P(x = a, y = b) = qₐ·p_b·(G(w_b) − G(wₐ))₊ for a ≠ b. A
rule that keeps x = a with probability fₐ where y ≠ a moves this share of the probability from b to
a.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mars_core.rules.base import Evidence, Rule, Values
from mars_core.types import ShiftKind
from mars_core.verification.draft import Draft, Places, chain
from mars_core.verification.sampled import exact, full_vocabulary, padded, shift_of
from mars_core.verification.shift import distances, row_sums, unknown

# N is exact at w = 0, 1/CELLS, … 1, and linear between: an error of G below 4/CELLS². G is linear
# too: 2/CELLS² more
CELLS = 1024
LEAST = 1e-6  # below the error of G
READABLE = ("cpu",)  # devices whose values can be read without waiting
_FIXED = 2.0**52  # probabilities are added as integers, which gives the same sum in any order


def coupled_shift(
    places: Places, draft: Draft, rule: Rule, values: Mapping[str, float]
) -> dict[str, Tensor]:
    """The columns tv and kl after all nodes, of ``rule.shift_kind``. Missing (nan) in trees, since
    what may be relaxed at a position depends on the noise of later ones, and for rules that look
    ahead. A rule that emits top-1 is bounded there: it emits nothing but what it may keep."""
    # p of the token that always follows a node, 1 if that is drawn from p
    end = places.uniform.new_ones(draft.size + 1)
    if rule.emits_top1:
        end = places.p.gather(-1, places.top_ids[:, :1])[:, 0].double()
    if rule.relaxes == 0:
        return {"tv": 1 - end, "kl": 1 - end}
    if rule.shift_kind(draft.is_chain) is ShiftKind.MISSING:
        return unknown(end)
    if not draft.is_chain:
        inner = torch.zeros_like(end, dtype=torch.bool).index_fill_(0, draft.parents, True)
        least = torch.where(inner, _least(places, rule, values), end)
        return {"tv": 1 - least, "kl": 0 - least.log()}
    if rule.emits_top1:
        evidence = full_vocabulary(places, draft)
        accepted = evidence.q * rule.accept(evidence, evidence.resolved(values)).clamp(0, 1)
        if rule.protected is not None:
            both, _ = _protected_draws(evidence, rule.protected)
            accepted = torch.where(rule.protected, both, accepted)
        distribution = accepted.scatter_add(
            -1, places.top_ids[: draft.size, :1], 1 - accepted.sum(-1, keepdim=True)
        )
        return shift_of(distribution, evidence.distribution, end[draft.size :])
    if rule.chance is not None or rule.switch is not None:
        # y is replaced by x with this probability, so P mixes p and q
        evidence = full_vocabulary(places, draft)
        p, q = evidence.distribution, evidence.q
        chance = _chance(evidence, rule, evidence.resolved(values))
        if rule.protected is None:
            return shift_of(torch.lerp(p, q, chance), p, end[draft.size :])
        both, others = _protected_draws(evidence, rule.protected)
        replacing = torch.where(rule.protected, both, q) + others
        return shift_of(torch.lerp(p, replacing, chance), p, end[draft.size :])
    if rule.relaxes != 2:
        tv, kl = torch.nn.functional.pad(_bounds(places, draft, rule, values), (0, 1))
        return {"tv": tv, "kl": kl}
    return _relaxed(places, draft, rule, values)


def _chance(evidence: Evidence, rule: Rule, values: Values) -> Tensor | float:
    """With which any token at the position of each row is relaxed, [E, 1] or for all."""
    if rule.chance is not None:
        return rule.chance(values)
    assert rule.switch is not None
    return rule.switch(evidence, values).double()


def _forgiveness(evidence: Evidence, rule: Rule, values: Mapping[str, float]) -> Tensor:
    """fₐ of the candidates, float64 [E, C]: the probability with which the rule keeps one where y
    is another."""
    accept = rule.accept(evidence, evidence.resolved(values)).double().clamp(0, 1)
    p = evidence.p.double()
    return ((accept - p) / (1 - p)).clamp(min=0).nan_to_num(0.0)


def _least(places: Places, rule: Rule, values: Mapping[str, float]) -> Tensor:
    """[N + 1]: the least p of a token that a rule which emits top-1 may emit, whatever is drafted.
    A distribution over tokens of at least this p has a TV of at most 1 − p and a KL of at most −ln
    p, since both are convex."""
    x = torch.arange(places.p.shape[-1], device=places.p.device).expand(len(places.p), -1)
    evidence = places.evidence(x, None, places.p)
    accepted = rule.accept(evidence, evidence.resolved(values)) > 0
    if rule.protected is not None:  # emitted no oftener than by the target
        accepted &= ~rule.protected
    emitted = accepted | evidence.is_top(1)
    return torch.where(emitted, places.p, 1.0).amin(-1).double()


def _bounds(places: Places, draft: Draft, rule: Rule, values: Mapping[str, float]) -> Tensor:
    """Upper bounds of TV and KL after each position of a chain, [2, N], under a rule that may relax
    any token.

    P(x = a, y ≠ a) = qₐ − qₐ·wₐ/N(wₐ), and N is convex: the lines between its values lie above it.
    So a token gains at most mₐ, which is fₐ times that with these lines instead of N, and TV ≤ Σ
    mₐ, KL ≤ Σ (pₐ + mₐ)·ln(1 + mₐ/pₐ)."""
    every = full_vocabulary(places, draft)
    p, q = every.distribution, every.q
    at = torch.arange(len(p), device=p.device).repeat_interleave(p.shape[-1])
    each = places.evidence(every.x.reshape(-1, 1), at, q.view(-1, 1))
    cell, inside, n = _lines(p, q)
    both = q * (cell + inside) / CELLS / _between(n, cell, inside)
    gained = _forgiveness(each, rule, values).view_as(p) * (q - both).clamp(min=0)
    terms = torch.xlogy(p + gained, 1 + (gained / p).nan_to_num(0.0, posinf=torch.inf))
    return torch.stack([row_sums(gained), row_sums(terms)])


def _relaxed(
    places: Places, draft: Draft, rule: Rule, values: Mapping[str, float]
) -> dict[str, Tensor]:
    """TV and KL after each position of a chain, under a rule that relaxes the two best tokens only;
    and the distribution, unless it is p everywhere."""
    assert draft.distribution is not None
    best, drafter = places.top_ids[: draft.size, :2], padded(draft.distribution, places.p.shape[-1])
    known = drafter.gather(-1, best)
    weight = _forgiveness(places.evidence(best, None, known), rule, values) * known  # fₐ·qₐ [N, 2]
    rows, columns = chain(draft.size, weight.device)[0], weight.new_zeros(2, draft.size)
    if weight.device.type in READABLE:  # most places relax nothing
        rows = weight.any(-1).nonzero()[:, 0]
    tv, kl = torch.nn.functional.pad(columns, (0, 1))
    if not len(rows):
        return {"tv": tv, "kl": kl}
    p, q, best = exact(places.p[rows]), exact(drafter[rows]), best[rows]
    integral = joint_integral(p, q)
    ahead = (integral[:, None] - integral.gather(-1, best)[:, :, None]).clamp_(
        min=0
    )  # [rows, 2, V]
    moved = ahead.mul_(weight[rows][:, :, None]).mul_(p[:, None])
    distribution = (p - moved[:, 0] - moved[:, 1]).scatter_add_(-1, best, moved.sum(-1))
    changed = distances(distribution, p)
    return {
        "tv": tv.index_copy(0, rows, changed[0]),
        "kl": kl.index_copy(0, rows, changed[1]),
        "distribution": exact(places.p[: draft.size]).index_copy(0, rows, distribution),
    }


def _protected_draws(evidence: Evidence, protected: Tensor) -> tuple[Tensor, Tensor]:
    """P(x = y = a) of protected tokens a, and P(y = b, x another protected token), [N, V] each,
    from the ratios in order: between two of them N is linear. 0 at positions where that is less
    than LEAST."""
    p, q = evidence.distribution, evidence.q
    rows = chain(len(p), p.device)[0]
    both, others = torch.zeros_like(p), torch.zeros_like(p)
    drafted = q * protected
    if p.device.type in READABLE:
        rows = (row_sums(drafted) > LEAST).nonzero()[:, 0]
    if not len(rows):
        return both, others
    p, q, drafted = p[rows], q[rows], drafted[rows]
    w, order = (p / (p + q).clamp(min=torch.finfo(p.dtype).tiny)).sort(stable=True)
    p, q, drafted = (each.gather(-1, order) for each in (p, q, drafted))
    n = w * q.cumsum(-1) + (1 - w) * (1 - p.cumsum(-1))
    area = torch.nn.functional.pad((w.diff() / (n[:, :-1] * n[:, 1:])).cumsum(-1), (1, 0))
    moved = p * (area * drafted.cumsum(-1) - (area * drafted).cumsum(-1)).clamp(min=0)
    both[rows] = torch.zeros_like(p).scatter_(-1, order, drafted * w / n)
    others[rows] = torch.zeros_like(p).scatter_(-1, order, moved)
    return both, others


def joint_integral(p: Tensor, q: Tensor) -> Tensor:
    """G of every token, [N, V], from p and q [N, V], float64, with an error of less than
    6/CELLS²."""
    cell, inside, n = _lines(p, q)
    area = torch.zeros_like(n)
    torch.cumsum((n[:, :-1] * n[:, 1:]).reciprocal_().div_(CELLS), -1, out=area[:, 1:])
    return _between(area, cell, inside)


def _lines(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The cell of every token's w and its position within, from 0 to 1, [N, V]; N at the edges of
    the cells, [N, CELLS + 1]."""
    at = (p / (p + q).clamp(min=torch.finfo(p.dtype).tiny)).mul_(CELLS)
    cell = at.long().clamp_(max=CELLS - 1)
    both = torch.stack([p, q]).mul_(_FIXED).long()
    sums = (
        both.new_zeros(2, len(p), CELLS + 1)
        .scatter_add_(-1, (cell + 1).expand_as(both), both)
        .cumsum(-1)
    )
    of_p, of_q = sums.to(p.dtype).div_(_FIXED)  # of the tokens before each bound
    edges = torch.linspace(0, 1, CELLS + 1, dtype=p.dtype, device=p.device)
    return cell, at.sub_(cell), torch.lerp(of_p[:, -1:] - of_p, of_q, edges)


def _between(values: Tensor, cell: Tensor, inside: Tensor) -> Tensor:
    """Values at the edges, [N, CELLS + 1], interpolated for every token, [N, V]."""
    return torch.lerp(values.gather(-1, cell), values.gather(-1, cell + 1), inside)
