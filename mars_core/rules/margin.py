"""Margin-aware rules: relax the runner-up where the two best logits of the target nearly tie."""

from __future__ import annotations

import math

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Function, Parameter, Rule, Siblings, Values
from mars_core.types import DraftMode

_THETA = Parameter(
    "theta",
    "θ",
    0.9,
    0.0,
    1.0,
    "relaxes where the second best logit exceeds θ × the best; θ = 1: never",
)
_GAP = Parameter(
    "gap",
    "g",
    0.7,
    0.0,
    100.0,
    "relaxes where the second best logit is less than g below the best; g = 0: never",
)


def near_tie(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, 1]: z₁ > 0 and z₂/z₁ > θ. A z₁ ≤ 0 counts as decisive: the ratio has no
    meaning there."""
    return (evidence.z(1) > 0) & (evidence.z(2) / evidence.z(1) > values["theta"])


def small_gap(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, 1]: z₁ − z₂ < g, that is p₂/p₁ > e^−g at temperature 1; invariant to a shift
    of the logits."""
    return evidence.z(1) - evidence.z(2) < values["gap"]


def released_tie(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, 1]: the test of the released code: on warped logits, with 1e-10 added to z₁
    and without a check of its sign."""
    allowed = evidence.per_row(evidence.distribution.gather(-1, evidence.top_ids[:, 1:2])) > 0
    return (
        torch.where(allowed, evidence.z(2), -torch.inf) / (evidence.z(1) + 1e-10) > values["theta"]
    )


def two_best_at(low_margin: Function) -> Function:
    """Accept at low margin 1 for the two best tokens and 0 for others, elsewhere strict (MARS,
    2601.15498)."""
    return lambda evidence, values: torch.where(
        low_margin(evidence, values), _one_of_two(evidence), evidence.strict
    )


def algorithm_1(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 1 for top-1, and for top-2 at low margin; else 0."""
    return evidence.is_top(1) | (near_tie(evidence, values) & evidence.is_top(2))


def released(evidence: Evidence, values: Values) -> torch.Tensor:
    """Decide as the released code: at low margin only the two best; elsewhere min(1, p/q), p
    without the siblings tried."""
    if evidence.greedy:
        return evidence.strict
    left = evidence.p / (1 - evidence.tried).clamp(min=torch.finfo(evidence.q.dtype).tiny)
    elsewhere = (left / evidence.confidence.clamp(min=1e-10)).clamp(max=1)
    return torch.where(released_tie(evidence, values), _one_of_two(evidence), elsewhere)


def ratio_room(z1: float, values: Values) -> float:
    """Return the room: z₁ − z₂ < (1 − θ)·z₁ is z₂/z₁ > θ; never where z₁ ≤ 0."""
    return (1 - values["theta"]) * z1


def released_room(z1: float, values: Values) -> float:
    """Return it as ``ratio_room``, but two negative logits have a ratio of 1 or more: always."""
    return ratio_room(z1, values) if z1 >= 0 else math.inf


def _one_of_two(evidence: Evidence) -> torch.Tensor:
    """Return whether the candidates are one of the two best tokens, bool [E, C]."""
    return evidence.is_top(1) | evidence.is_top(2)


MARS = Rule(
    name="mars",
    title="MARS",
    summary="Where the two best logits are nearly equal, a drafted token that is one of them is kept.",
    formula="relax x iff z₁ > 0, z₂/z₁ > θ and x ∈ {top-1, top-2}; sampled drafts: there a = 1 for these two, else 0, R = p",
    source="MARS 2601.15498, over a lossless strict rule",
    accept=two_best_at(near_tie),
    parameters=(_THETA,),
    best_first=True,
    redraw=near_tie,
    relaxes=2,
    margin_threshold=ratio_room,
)
MARS_ALGORITHM1 = Rule(
    name="mars-algorithm1",
    title="MARS, Algorithm 1",
    summary="The paper's Algorithm 1 as written: the target always emits its best token; the runner-up is kept at low margin.",
    formula="y = top-1; keep x iff x = top-1, or x = top-2 and z₁ > 0 and z₂/z₁ > θ; else emit top-1",
    source="MARS 2601.15498, Algorithm 1",
    accept=algorithm_1,
    parameters=(_THETA,),
    siblings=Siblings.IN_TURN,
    best_first=True,
    emits_top1=True,
    margin_threshold=ratio_room,
)
MARS_REFERENCE = Rule(
    name="mars-reference",
    title="MARS, reference code",
    summary="The released code as published, including its errors: not lossless even where the margin is wide.",
    formula="at z₂/(z₁ + 1e-10) > θ keep the first x ∈ {top-1, top-2}, else draw from p; elsewhere a = min(1, p/q), q softmax",
    source="5SSjw/MARS 8909b411, mars/model/utils.py evaluate_posterior; temperature 0: strict",
    accept=released,
    parameters=(_THETA,),
    siblings=Siblings.IN_TURN,
    redraw=released_tie,
    modes=(DraftMode.COUPLED, DraftMode.GREEDY),
    margin_threshold=released_room,
)
MARS_GAP = Rule(
    name="mars-gap",
    title="MARS, gap",
    summary="MARS with the logit gap instead of the ratio: invariant to a constant shift of the logits.",
    formula="relax x iff z₁ − z₂ < g and x ∈ {top-1, top-2}; sampled drafts: as mars",
    source="ours; z₁ − z₂ < g is p₂/p₁ > e^−g",
    accept=two_best_at(small_gap),
    parameters=(_GAP,),
    best_first=True,
    redraw=small_gap,
    relaxes=2,
    margin_threshold=lambda _, values: values["gap"],
)
