"""Cactus: the drafted token's probability is raised within a divergence budget."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Rule, Values


def raised(evidence: Evidence, values: Values) -> torch.Tensor:
    """h = min(1, p + √(2δ·p·(1 − p))) of the candidates."""
    p = evidence.p
    return (p + (2 * values["delta"] * p * (1 - p)).sqrt()).clamp(max=1)


def cactus(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return min(1, h/q)."""
    return evidence.over_q(raised(evidence, values)).clamp(max=1)


def left(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return (1 − h)/(1 − p): what the tokens other than x keep of p."""
    return ((1 - raised(evidence, values)) / (1 - evidence.p)).nan_to_num(1.0)


CACTUS = Rule(
    name="cactus",
    title="Cactus",
    summary="Raises the probability of the drafted token within a budget of divergence; all others shrink in proportion.",
    formula="h = min(1, p + √(2δ·p·(1 − p))), a = min(1, h/q), R = norm((p·(1 − h)/(1 − p(x)) − q)₊) with h = h(x); temperature 0: strict",
    source="Cactus 2604.04987, MANGA-UOFA/Cactus",
    accept=cactus,
    residual_scale=left,
    parameters=(
        Parameter("delta", "δ", 1.0, 0.0, 100.0, "δ: budget of divergence in nats; 0 is strict"),
    ),
)
