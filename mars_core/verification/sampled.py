"""Decisions on sampled drafts (chains): token by token with the pair (a, R), or the full block at
once.

A drafted x ~ q is accepted with probability a(x); the first rejected token is replaced by a draw
from R. The distribution of the emitted token is P = q·a + (1 − Σ q·a)·R, exactly."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mars_core.rules.base import Evidence, Reach
from mars_core.sampling import draw, residual, row_sums
from mars_core.verification.case import Case, Decision
from mars_core.verification.shift import Shift, forgiven, unknown_shift
from mars_core.verification.state import with_ledger


def decide_sampled(case: Case) -> Decision:
    """Return the decision on a sampled chain, with its exact shift if it is ``measured``."""
    rule, x = case.rule, case.draft.x[:, None]
    evidence = full_vocabulary(case)
    strict = evidence.strict.gather(-1, x)[:, 0]
    if rule.regret_cost is not None:
        case = with_ledger(case, case.target.uniform[: len(x)] < strict)
        evidence = full_vocabulary(case)
    target, values = case.target, evidence.resolved(case.values)
    if rule.reach is Reach.BLOCK:
        return _by_block(case, evidence)
    count, p, q = len(x), evidence.distribution, evidence.q
    accept = case.accepted(evidence)  # a [N, V], with the full vocabulary as candidates
    if rule.emits_top1:
        correction = evidence.is_top(1).to(accept.dtype)  # R [N, V]
    else:
        goal = p if rule.target_override is None else rule.target_override(evidence, values)
        correction = residual(goal, q)
        if rule.redraw is not None:
            correction = torch.where(rule.redraw(evidence, values), goal, correction)
    guarded = rule.protected if rule.target_override or rule.redraw else None
    drawn, shrunk = (
        correction,
        None if rule.residual_scale is None else rule.residual_scale(evidence, values),
    )
    if shrunk is not None:
        drawn = residual(shrunk.gather(-1, x) * p, q)
    if guarded is not None:  # a rejected protected token is replaced as by strict
        drawn = torch.where(guarded[x], residual(p, q), correction)
    uniform = target.uniform[:count]
    chance = accept.gather(-1, x)[:, 0]
    bonus = target.top_ids[count:, 0] if rule.emits_top1 else target.target_ids[count:]
    emit, shift = torch.cat([draw(drawn, target.noise[:count]).ids, bonus]), Shift()
    if case.measured and rule.reach is Reach.DRAFTED:
        shift = unknown_shift(case, emit)
    elif case.measured:
        accepted = q * accept
        if shrunk is None:
            distribution = accepted + (1 - accepted.sum(-1, keepdim=True)) * correction
        else:
            distribution = accepted + _corrected(p, q, q - accepted, shrunk)
        if guarded is not None:
            missed = ((q - accepted) * guarded).sum(-1, keepdim=True)
            distribution = distribution + missed * (residual(p, q) - correction)
        shift = chain_shift(case, emit, p, distribution)
    return Decision(
        keep=uniform < chance,
        strict=uniform < strict,
        emit=emit,
        forgiveness=forgiven(chance, strict),
        shift=shift,
        state=target.state,
    )


def _corrected(p: Tensor, q: Tensor, lost: Tensor, shrunk: Tensor) -> Tensor:
    """Σₓ lost(x)·norm((s(x)·p − q)₊), [N, V]; ``shrunk``: s. The ratios q/p in order give the sums
    below each s, and the s in order those above each ratio."""
    ratio = (q / p).nan_to_num(torch.inf, posinf=torch.inf)
    bounds, order = ratio.sort(-1)
    before = torch.searchsorted(bounds, shrunk.contiguous())
    mass = shrunk * _sums(p, order).gather(-1, before) - _sums(q, order).gather(-1, before)
    weight = torch.where(lost > 0, lost / mass, 0.0)
    bounds, order = shrunk.neg().sort(-1)
    above = torch.searchsorted(bounds, -ratio)
    scaled, plain = (_sums(each, order).gather(-1, above) for each in (weight * shrunk, weight))
    return (p * scaled - q * plain).clamp(min=0)


def _sums(values: Tensor, order: Tensor) -> Tensor:
    """Sums of the first 0 … V values in this order, [N, V] → [N, V + 1]."""
    return torch.nn.functional.pad(values.gather(-1, order).cumsum(-1), (1, 0))


def full_vocabulary(case: Case) -> Evidence:
    """Return the full vocabulary at every drafted position of a chain, in float64, so that TV is 0
    where P is p. Temperature > 0."""
    target, drafter = case.target, case.draft.distribution
    assert drafter is not None and case.draft.is_chain
    count, size = case.draft.size, target.p.shape[-1]
    q, p = exact(drafter), exact(target.p[:count])
    every = torch.arange(size, device=q.device).expand(count, -1)
    of_greedy = target.evidence(every, None, q, q)
    return replace(of_greedy, distribution=p, soft=p, top_ids=target.top_ids[:count], q=q)


def exact(distribution: Tensor) -> Tensor:
    """Return it in float64, summing to 1."""
    distribution = distribution.double()
    return distribution / row_sums(distribution)[:, None]


def _by_block(case: Case, evidence: Evidence) -> Decision:
    """Block verification (2403.10444): the longest accepted prefix, with h_i of all its positions.
    Lossless."""
    target, p, q, x = case.target, evidence.distribution, evidence.q, case.draft.x[:, None]
    count, shape = len(x), (case.draft.texts, -1)
    reach = [p.new_ones(case.draft.texts)]
    for each in (p.gather(-1, x) / q.gather(-1, x)).view(shape).unbind(-1):
        reach.append((reach[-1] * each).clamp(max=1))
    before, through = torch.stack(reach[:-1], -1).flatten(), torch.stack(reach[1:], -1)
    excess = (before[:, None] * p - q).clamp(min=0)
    mass = excess.sum(-1)
    after = mass.view(shape)[:, 1:]
    stop = after / (after + 1 - through[:, :-1])
    chance = torch.cat([stop.nan_to_num(1.0), through[:, -1:]], -1)
    passes = target.uniform[:count].view(shape) < chance
    keep = passes.flip(-1).cummax(-1).values.flip(-1).flatten()
    correction = torch.where(mass[:, None] > 0, excess / mass[:, None], p)
    return Decision(
        keep=keep,
        strict=keep,
        emit=torch.cat([draw(correction, target.noise[:count]).ids, target.target_ids[count:]]),
        forgiveness=torch.zeros_like(before),
        shift={},
        state=target.state,
    )


def chain_shift(case: Case, emit: Tensor, p: Tensor, distribution: Tensor) -> Shift:
    """Compute that of chains, from P and p [N, V] after the drafted positions, float64. A rule that
    emits top-1 does that after the last one too."""
    draft, count = case.draft, case.draft.size
    end = case.target.p_of(draft, emit)[2 * count :]
    one = torch.ones_like(end)
    sure, mass = (end, one) if case.rule.emits_top1 else (one, end)
    ratio = (distribution / p).nan_to_num_(nan=0.0, posinf=torch.inf)
    terms = torch.where(distribution > 0, distribution * ratio.log(), 0.0)
    both = distribution.gather(-1, torch.stack([draft.x, emit[:count]], -1))
    return {
        "tv": torch.cat([0.5 * (distribution - p).abs().sum(-1), 1 - sure]),
        "kl": torch.cat([terms.sum(-1).clamp(min=0), 0 - sure.log()]),
        "overshoot": torch.cat([ratio.amax(-1), 1 / sure]),
        "mass": torch.cat([*both.unbind(-1), mass]),
    }
