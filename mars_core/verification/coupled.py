"""TV and KL of coupled drafts: the drafted token x and the target's token y are drawn with the
same noise.

With exponential noise E, x = argmin E/q and y = argmin E/p. Let w = p/(p + q), N(w) = Σᵢ max(qᵢ·w,
pᵢ·(1 − w)) and G(w) = ∫₀ʷ dv/N(v)². Then P(x = a, y = b) = qₐ·p_b·(G(w_b) − G(wₐ))₊ for a ≠ b. A
rule that keeps x = a with probability fₐ where y ≠ a moves this share of the probability from b to
a.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mars_core.rules.base import Evidence
from mars_core.sampling import row_sums
from mars_core.types import ShiftKind
from mars_core.verification.case import Case
from mars_core.verification.draft import chain
from mars_core.verification.sampled import chain_shift, exact, full_vocabulary
from mars_core.verification.shift import Shift, divergence, forgiven, no_shift, unknown_shift

# N is exact at w = 0, 1/CELLS, … 1, and linear between: an error of G below 4/CELLS². G is linear
# too: 2/CELLS² more
CELLS = 1024
LEAST = 1e-6  # below the error of G
READABLE = ("cpu",)  # devices whose values can be read without waiting
_FIXED = 2.0**52  # probabilities are added as integers, which gives the same sum in any order


def coupled_shift(case: Case, emit: Tensor) -> Shift:
    """Compute what ``rule.shift_kind`` says, for a rule that relaxes. Missing (nan) in trees, since
    what may be relaxed at a position depends on the noise of later ones, and for rules that look
    ahead. A rule that emits top-1 is bounded there: it emits nothing but what it may keep."""
    target, draft, rule = case.target, case.draft, case.rule
    unknown = unknown_shift(case, emit)
    if rule.shift_kind(draft.is_chain) is ShiftKind.MISSING:
        return unknown
    if not draft.is_chain:
        inner = torch.zeros_like(target.uniform).index_fill_(0, draft.parents, 1.0) > 0
        end = target.p.gather(-1, target.top_ids[:, :1])[:, 0].double()
        least = torch.where(inner, _least(case), end)
        return {**unknown, "tv": 1 - least, "kl": 0 - least.log()}
    if rule.emits_top1:
        evidence = full_vocabulary(case)
        accepted = evidence.q * case.accepted(evidence)
        if rule.protected is not None:
            both, _ = _protected_draws(evidence, rule.protected)
            accepted = torch.where(rule.protected, both, accepted)
        distribution = accepted.scatter_add(
            -1, target.top_ids[: draft.size, :1], 1 - accepted.sum(-1, keepdim=True)
        )
        return chain_shift(case, emit, evidence.distribution, distribution)
    if rule.chance is not None or rule.switch is not None:
        # y is replaced by x with this probability, so P mixes p and q
        evidence = full_vocabulary(case)
        p, q = evidence.distribution, evidence.q
        chance = _chance(case, evidence)
        if rule.protected is not None:
            both, others = _protected_draws(evidence, rule.protected)
            q = torch.where(rule.protected, both, q) + others
        return chain_shift(case, emit, p, torch.lerp(p, q, chance))
    if rule.relaxes != 2:
        tv, kl = torch.nn.functional.pad(_bounds(case), (0, draft.texts))
        return {**unknown, "tv": tv, "kl": kl}
    return _relaxed(case, emit)


def _chance(case: Case, evidence: Evidence) -> Tensor | float:
    """Return the probability with which any token at the position of each row is relaxed, [E, 1] or
    for all."""
    rule, values = case.rule, evidence.resolved(case.values)
    if rule.chance is not None:
        return rule.chance(values)
    assert rule.switch is not None
    return rule.switch(evidence, values).double()


def _forgiveness(case: Case, evidence: Evidence) -> Tensor:
    """fₐ of the candidates, float64 [E, C]: the probability with which the rule keeps one where y
    is another."""
    return forgiven(case.accepted(evidence), evidence.p.double())


def _least(case: Case) -> Tensor:
    """Return [P]: the least p of a token that a rule which emits top-1 may emit, whatever is
    drafted. A distribution over tokens of at least this p has a TV of at most 1 − p and a KL of at
    most −ln p, since both are convex."""
    p, protected = case.target.p, case.rule.protected
    x = torch.arange(p.shape[-1], device=p.device).expand(len(p), -1)
    evidence = case.target.evidence(x, None, p)
    accepted = case.accepted(evidence) > 0
    if protected is not None:  # emitted no oftener than by the target
        accepted &= ~protected
    emitted = accepted | evidence.is_top(1)
    return torch.where(emitted, p, 1.0).amin(-1).double()


def _bounds(case: Case) -> Tensor:
    """Upper bounds of TV and KL after each position of a chain, [2, N], under a rule that may relax
    any token.

    P(x = a, y ≠ a) = qₐ − qₐ·wₐ/N(wₐ), and N is convex: the lines between its values lie above it.
    So a token gains at most mₐ, which is fₐ times that with these lines instead of N, and TV ≤ Σ
    mₐ, KL ≤ Σ (pₐ + mₐ)·ln(1 + mₐ/pₐ)."""
    every = full_vocabulary(case)
    p, q = every.distribution, every.q
    at = torch.arange(len(p), device=p.device).repeat_interleave(p.shape[-1])
    each = case.target.evidence(every.x.reshape(-1, 1), at, q.view(-1, 1))
    cell, inside, n = _lines(p, q)
    both = q * (cell + inside) / CELLS / _between(n, cell, inside)
    gained = _forgiveness(case, each).view_as(p) * (q - both).clamp(min=0)
    terms = torch.xlogy(p + gained, 1 + (gained / p).nan_to_num(0.0, posinf=torch.inf))
    return torch.stack([gained, terms]).sum(-1)


def _relaxed(case: Case, emit: Tensor) -> Shift:
    """Compute that of a chain, under a rule that relaxes the two best tokens only."""
    target, draft = case.target, case.draft
    assert draft.distribution is not None
    best, drafter = target.top_ids[: draft.size, :2], draft.distribution
    known = drafter.gather(-1, best)
    weight = _forgiveness(case, target.evidence(best, None, known)) * known  # fₐ·qₐ [N, 2]
    rows, shift = chain(draft.size, weight.device)[0], no_shift(case, emit)
    if weight.device.type in READABLE:  # most nodes relax nothing
        rows = weight.any(-1).nonzero()[:, 0]
    if not len(rows):
        return shift
    p, q, best = exact(target.p[rows]), exact(drafter[rows]), best[rows]
    changed = _moved(p, joint_integral(p, q), best, weight[rows], draft.x[rows], emit[rows])
    of_tokens = torch.cat([rows, rows + draft.size])
    return {
        name: column.index_copy(0, of_tokens if name == "mass" else rows, changed[name])
        for name, column in shift.items()
    }


def _moved(
    p: Tensor, integral: Tensor, best: Tensor, weight: Tensor, x: Tensor, emit: Tensor
) -> Shift:
    """Compute it where weight[k]·(G(b) − G(best[k]))₊ of every p(b) goes to the token best[k], k =
    1, 2, so that only these can be above their p. p, G [R, V]; best, weight [R, 2]; x and emit [R]:
    the tokens with ``mass``, [2 R]."""
    left, gained = torch.ones_like(p), []  # P/p without what a token gets
    for each, at in zip(weight.split(1, 1), integral.gather(-1, best).split(1, 1), strict=True):
        ahead = (integral - at).clamp_(min=0).mul_(each)
        left -= ahead
        gained.append(row_sums(ahead.mul_(p)))
    more = torch.stack(gained, -1)

    def of(ids: Tensor) -> Tensor:
        """P of tokens [R, 2]."""
        added = (ids[..., None] == best[:, None]) * more[:, None]
        return left.gather(-1, ids) * p.gather(-1, ids) + added.sum(-1)

    before, after, mass = p.gather(-1, best), of(best), of(torch.stack([x, emit], -1))
    ratio = (after / before).nan_to_num(nan=0.0, posinf=torch.inf)
    others = left.clamp_(min=0).scatter_(-1, best, 1.0)
    kl = row_sums(torch.xlogy(others, others).mul_(p)) + divergence(after, before).sum(-1)
    return {
        "tv": (after - before).clamp(min=0).sum(-1),
        "kl": kl.clamp(min=0),
        "overshoot": ratio.amax(-1).clamp(min=1),
        "mass": mass.T.flatten(),
    }


def _protected_draws(evidence: Evidence, protected: Tensor) -> tuple[Tensor, Tensor]:
    """Return P(x = y = a) of protected tokens a, and P(y = b, x another protected token), [N, V]
    each, from the ratios in order: between two of them N is linear. 0 at positions where that is
    less than LEAST."""
    p, q = evidence.distribution, evidence.q
    rows = chain(len(p), p.device)[0]
    both, others = torch.zeros_like(p), torch.zeros_like(p)
    drafted = q * protected
    if p.device.type in READABLE:
        rows = (drafted.sum(-1) > LEAST).nonzero()[:, 0]
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
    """Return the cell of every token's w and its position within, from 0 to 1, [N, V]; N at the
    edges of the cells, [N, CELLS + 1]."""
    at = (p + q).clamp_(min=torch.finfo(p.dtype).tiny)
    torch.div(p, at, out=at).mul_(CELLS)
    cell = at.long().clamp_(max=CELLS - 1)
    sums = cell.new_zeros(2, len(p), CELLS + 1)
    for each, added in zip((p, q), sums[..., 1:], strict=True):
        added.scatter_add_(-1, cell, (each * _FIXED).long())
    sums = sums.cumsum(-1)
    of_p, of_q = sums.to(p.dtype).div_(_FIXED)  # of the tokens before each bound
    edges = torch.linspace(0, 1, CELLS + 1, dtype=p.dtype, device=p.device)
    return cell, at.sub_(cell), torch.lerp(of_p[:, -1:] - of_p, of_q, edges)


def _between(values: Tensor, cell: Tensor, inside: Tensor) -> Tensor:
    """Return values at the edges, [N, CELLS + 1], interpolated for every token, [N, V]."""
    return torch.lerp(values.gather(-1, cell), values[:, 1:].gather(-1, cell), inside)
