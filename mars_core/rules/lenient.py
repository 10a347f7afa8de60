"""Rules that lower the bar of the acceptance test. Need only torch."""

from __future__ import annotations

import torch
from torch import Tensor

from mars_core.rules.base import Evidence, Parameter, Rule, Values


def lenience(evidence: Evidence, values: Values) -> Tensor:
    """min(1, p/(ℓ·q)); at temperature 0 whether p(x) ≥ ℓ·max p, p = softmax(z)."""
    if evidence.greedy:
        near = evidence.of(evidence.soft) >= values["lenience"] * evidence.largest(evidence.soft)
        return near.to(evidence.q.dtype)
    return (evidence.ratio / values["lenience"]).clamp(max=1)


def ears(evidence: Evidence, values: Values) -> Tensor:
    """P(u ≤ p/q + τ₀·(1 − max p)); a token that p excludes is never kept."""
    raised = evidence.ratio + values["tolerance"] * (1 - evidence.largest(evidence.law))
    return torch.where(evidence.p > 0, raised.clamp(max=1), 0.0)


def entropy(evidence: Evidence, values: Values) -> Tensor:
    """P(u·min(e^(−αH), t) ≤ p/q), H the entropy of p in nats."""
    spread = evidence.place(-torch.xlogy(evidence.law, evidence.law).sum(-1, keepdim=True))
    bar = (-values["alpha"] * spread).exp().clamp(max=values["limit"])
    return (evidence.ratio / bar).clamp(max=1)


LENIENCE = Rule(
    name="lenience",
    summary="The acceptance test with q made smaller: no token becomes more than 1/ℓ times as likely as the target has it.",
    formula="a = min(1, p/(ℓ·q)), R = norm((p − q)₊); temperature 0: p(x) ≥ ℓ·max p with p = softmax(z)",
    source="Leviathan et al. 2211.17192, appendix A.5, which leaves R open",
    accept=lenience, parameters=(Parameter("lenience", 0.5, 1e-6, 1.0, "ℓ: q is multiplied by it; 1 is strict"),),
)  # fmt: skip
EARS = Rule(
    name="ears",
    summary="The uniform of the acceptance test is lowered where the target is unsure.",
    formula="keep x iff p/q ≥ u − τ₀·(1 − max p) and p > 0; R = norm((p − q)₊); temperature 0: strict",
    source="EARS 2512.13194; vllm-ascend pull requests 5587, 7845 (default there: off)",
    accept=ears,
    parameters=(
        Parameter("tolerance", 0.3, 0.0, 1.0, "τ₀: how much the uniform is lowered at full doubt; 0 is strict"),
    ),
)
ENTROPY = Rule(
    name="entropy",
    summary="The uniform of the acceptance test is scaled down where the target's entropy is high.",
    formula="keep x iff p/q ≥ u·min(e^(−αH), t); R = norm((p − q)₊); temperature 0: strict",
    source="vllm-ascend, entropy-based rejection sampling; never quite strict while t < 1",
    accept=entropy,
    parameters=(
        Parameter("alpha", 0.4, 0.0, 100.0, "α: weight of the entropy; 0 with t = 1 is strict"),
        Parameter("limit", 0.95, 1e-6, 1.0, "t: the scale at entropy 0"),
    ),
)
