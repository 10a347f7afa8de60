"""Margin-aware rules: forgive the runner-up where the target hardly prefers its best token. Needs only torch."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from mars_core.rules.base import Emits, Evidence, Parameter, Rule

_THETA = Parameter("theta", 0.9, 0.0, 1.0, "low margin means z₂/z₁ > θ; 1 never forgives (z₁ > 0)")
_GAP = Parameter("gap", 0.7, 0.0, 100.0, "low margin means z₁ − z₂ < g; 0 never forgives")


def by_ratio(evidence: Evidence, parameters: Mapping[str, float]) -> Tensor:
    """1 for the two best tokens where z₁ > 0 and z₂/z₁ > θ, else 0 (MARS, 2601.15498). A z₁ ≤ 0 counts as decisive."""
    z1, z2 = evidence.top_z[:, 0:1].double(), evidence.top_z[:, 1:2].double()
    low_margin = (z1 > 0) & (z2 / z1 > parameters["theta"])
    return (low_margin & (evidence.is_top1 | evidence.is_top2)).to(evidence.p.dtype)


def by_gap(evidence: Evidence, parameters: Mapping[str, float]) -> Tensor:
    """1 for the two best tokens where z₁ − z₂ < g, that is p₂/p₁ > e^−g at temperature 1; invariant to a shift of the logits."""
    z1, z2 = evidence.top_z[:, 0:1].double(), evidence.top_z[:, 1:2].double()
    low_margin = z1 - z2 < parameters["gap"]
    return (low_margin & (evidence.is_top1 | evidence.is_top2)).to(evidence.p.dtype)


MARS = Rule(
    name="mars",
    summary="Where the two best logits are nearly equal, a drafted token that is one of them is kept.",
    formula="forgive x iff z₁ > 0, z₂/z₁ > θ and x ∈ {top-1, top-2}",
    source="MARS 2601.15498, over a lossless strict rule",
    forgive=by_ratio,
    parameters=(_THETA,),
)
MARS_ALGORITHM1 = Rule(
    name="mars-algorithm1",
    summary="The paper's Algorithm 1 to the letter: the target always says its best token; the runner-up is kept at low margin.",
    formula="y = top-1; keep x iff x = top-1, or x = top-2 and z₁ > 0 and z₂/z₁ > θ; else emit top-1",
    source="MARS 2601.15498, Algorithm 1",
    forgive=by_ratio,
    parameters=(_THETA,),
    emits=Emits.TOP1,
)
MARS_GAP = Rule(
    name="mars-gap",
    summary="MARS with the logit gap in place of the ratio: the same for logits shifted by a constant.",
    formula="forgive x iff z₁ − z₂ < g and x ∈ {top-1, top-2}",
    source="ours; z₁ − z₂ < g is p₂/p₁ > e^−g",
    forgive=by_gap,
    parameters=(_GAP,),
)
