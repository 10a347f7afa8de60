"""Decisions on sampled drafts (chains): token by token with the pair (a, R), or the full block at
once.

A drafted x ~ q is accepted with probability a(x); the first rejected token is replaced by a draw
from R. The distribution of the emitted token is P = q·a + (1 − Σ q·a)·R, exactly."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mars_core.rules.base import Evidence, Reach, Rule
from mars_core.sampling import draw, residual
from mars_core.verification.draft import Decision, Draft, Places
from mars_core.verification.shift import distances, unknown
from mars_core.verification.state import with_ledger


def decide_sampled(
    places: Places, draft: Draft, rule: Rule, values: Mapping[str, float], telemetry: bool
) -> Decision:
    """keep, emit and the exact shift of a sampled chain under ``rule``; the latter only with
    ``telemetry``."""
    evidence, x = full_vocabulary(places, draft), draft.ids[1:, None]
    strict = evidence.strict.gather(-1, x)[:, 0]
    if rule.charge is not None:
        places = with_ledger(places, draft, rule, values, places.uniform[: len(x)] < strict)
        evidence = full_vocabulary(places, draft)
    values = evidence.resolved(values)
    if rule.reach is Reach.BLOCK:
        return _by_block(places, x, evidence, telemetry)
    count, p, q = len(x), evidence.distribution, evidence.q
    accept = rule.accept(evidence, values).clamp(
        0, 1
    )  # a [N, V], with the full vocabulary as candidates
    if rule.emits_top1:
        correction = evidence.is_top(1).to(accept.dtype)  # R [N, V]
    else:
        goal = p if rule.aim is None else rule.aim(evidence, values)
        correction = residual(goal, q)
        if rule.redraw is not None:
            correction = torch.where(rule.redraw(evidence, values), goal, correction)
    guarded = rule.protected if rule.aim or rule.redraw else None
    drawn, shrunk = correction, None if rule.shrink is None else rule.shrink(evidence, values)
    if shrunk is not None:
        drawn = residual(shrunk.gather(-1, x) * p, q)
    if guarded is not None:  # a rejected protected token is replaced as by strict
        drawn = torch.where(guarded[x], residual(p, q), correction)
    uniform = places.uniform[:count]
    chance = accept.gather(-1, x)[:, 0]
    bonus = places.top_ids[count:, 0] if rule.emits_top1 else places.target_ids[count:]
    shift: dict[str, Tensor] = {}
    end = (
        places.p[count:].gather(-1, bonus[:, None])[:, 0].double()
        if rule.emits_top1
        else p.new_ones(1)
    )
    if telemetry and rule.reach is Reach.DRAFTED:
        shift = unknown(places.uniform)
    elif telemetry:
        accepted = q * accept
        if shrunk is None:
            distribution = accepted + (1 - accepted.sum(-1, keepdim=True)) * correction
        else:
            distribution = accepted + _corrected(p, q, q - accepted, shrunk)
        if guarded is not None:
            missed = ((q - accepted) * guarded).sum(-1, keepdim=True)
            distribution = distribution + missed * (residual(p, q) - correction)
        shift = shift_of(distribution, p, end)
    return Decision(
        keep=uniform < chance,
        strict=uniform < strict,
        emit=torch.cat([draw(drawn, places.noise[:count]).ids, bonus]),
        forgiveness=((chance - strict) / (1 - strict)).clamp(min=0).nan_to_num(0.0),
        shift=shift,
        state=places.state,
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


def full_vocabulary(places: Places, draft: Draft) -> Evidence:
    """The full vocabulary at every drafted position of a chain, in float64, so that TV is 0 where P
    is p. Temperature > 0."""
    assert draft.distribution is not None and draft.is_chain
    count, size = draft.size, places.p.shape[-1]
    q, p = exact(padded(draft.distribution, size)), exact(places.p[:count])
    return Evidence(
        logits=places.logits[:count],
        distribution=p,
        soft=p,
        drafter=q,
        top_z=places.top_z[:count],
        top_ids=places.top_ids[:count],
        at=None,
        x=torch.arange(size, device=q.device).expand(count, -1),
        q=q,
        confidence=q,
        tried=q.new_zeros(count, 1),
        greedy=False,
        state=places.state,
        score=None if places.score is None else places.score[1:],
    )


def padded(drafter: Tensor, size: int) -> Tensor:
    """q [N, V'] with 0 for ids that only the target has, [N, ``size``]."""
    missing = size - drafter.shape[-1]
    return torch.nn.functional.pad(drafter, (0, missing)) if missing else drafter


def exact(distribution: Tensor) -> Tensor:
    """float64, summing to 1."""
    distribution = distribution.double()
    return distribution / distribution.sum(-1, keepdim=True)


def _by_block(places: Places, x: Tensor, evidence: Evidence, telemetry: bool) -> Decision:
    """Block verification (2403.10444): the longest accepted prefix, with h_i of all its positions.
    Lossless."""
    count, p, q = len(x), evidence.distribution, evidence.q
    ratio = (p.gather(-1, x) / q.gather(-1, x))[:, 0]
    reach = [p.new_ones(())]
    for each in ratio:
        reach.append((reach[-1] * each).clamp(max=1))
    before, through = torch.stack(reach[:-1]), torch.stack(reach[1:])
    excess = (before[:, None] * p - q).clamp(min=0)
    mass = excess.sum(-1)
    stop = mass[1:] / (mass[1:] + 1 - through[:-1])
    chance = torch.cat([stop.nan_to_num(1.0), through[-1:]])
    keep = (places.uniform[:count] < chance).flip(0).cummax(0).values.flip(0)
    correction = torch.where(mass[:, None] > 0, excess / mass[:, None], p)
    return Decision(
        keep=keep,
        strict=keep,
        emit=torch.cat([draw(correction, places.noise[:count]).ids, places.target_ids[count:]]),
        forgiveness=torch.zeros_like(chance),
        shift=shift_of(_block_distribution(before, p, q, correction), p, p.new_ones(1))
        if telemetry
        else {},
        state=places.state,
    )


def _block_distribution(before: Tensor, p: Tensor, q: Tensor, correction: Tensor) -> Tensor:
    """P after each position, [N, V]; ``before`` [N]: the probability weight of the tokens before
    it."""
    accepted = torch.minimum(
        before[:, None] * p, q
    )  # q times the probability that the prefix up to here is accepted
    distribution = (accepted + (before - accepted.sum(-1))[:, None] * correction) / before[:, None]
    return torch.where(before[:, None] > 0, distribution, p)


def shift_of(distribution: Tensor, p: Tensor, end: Tensor) -> dict[str, Tensor]:
    """TV and KL after all nodes, and the distribution for ``weights``. ``end`` [1]: p of the token
    that always follows the last one, 1 if that is drawn from p."""
    tv, kl = distances(distribution, p)
    return {
        "tv": torch.cat([tv, 1 - end]),
        "kl": torch.cat([kl, 0 - end.log()]),
        "distribution": distribution,
    }
