"""Rules that are lossless with respect to a combination of the target's and the drafter's
distribution."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Rule, Siblings, Values
from mars_core.types import DraftMode


def ensemble(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return (1 − w) + w·min(1, p/q); at temperature 0 1 if x is the best token of the mixture,
    else 0."""
    if evidence.greedy and evidence.drafter is not None:
        best = ensemble_distribution(evidence, values).argmax(-1, keepdim=True)
        return evidence.x == best
    return 1 - values["weight"] + values["weight"] * evidence.strict


def ensemble_distribution(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return w·p + (1 − w)·q over the vocabulary, [E, V]; at temperature 0 of both softmaxes."""
    target, drafter = evidence.both
    return values["weight"] * target + (1 - values["weight"]) * drafter


def cascade_token(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return min(1, π/q) with π = q·1_A + η·p: 1 for tokens of A."""
    deferred = 1 - (evidence.q * _good(evidence, values)).sum(-1, keepdim=True)
    elsewhere = evidence.over_q(deferred * evidence.p).clamp(max=1)
    return torch.where(_good(evidence, values), 1.0, elsewhere)


def cascade_distribution(evidence: Evidence, values: Values) -> torch.Tensor:
    """π = q·1_A + η·p over the vocabulary, [E, V]; η = 1 − q(A)."""
    trusted = evidence.q * _good(evidence, values)
    distribution = (1 - trusted.sum(-1, keepdim=True)) * evidence.per_row(evidence.distribution)
    return distribution.scatter_add(-1, evidence.x, trusted.to(distribution.dtype))


def _good(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, C]: whether the candidate is in A = {p ≥ (1 − α)·max p}; at temperature 0 p =
    softmax(z)."""
    return evidence.beside_best(1 - values["alpha"])


def contrastive(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return min(1, π/q); at temperature 0 1 if x is the best token of π, else 0."""
    goal = contrastive_distribution(evidence, values)
    if evidence.greedy:
        return evidence.x == goal.argmax(-1, keepdim=True)
    return evidence.over_q(goal.gather(-1, evidence.x)).clamp(max=1)


def contrastive_distribution(evidence: Evidence, values: Values) -> torch.Tensor:
    """π ∝ p^(1 + β)·q^(−β) where p ≥ α·max p, [E, V]; q = 0 counts as the least q > 0. At
    temperature 0 of both softmaxes."""
    p, q = evidence.both
    q = torch.where(q > 0, q, torch.where(q > 0, q, 1.0).amin(-1, keepdim=True))
    beta, plausible = values["beta"], values["alpha"] * p.amax(-1, keepdim=True)
    scores = (1 + beta) * p.log() - beta * q.log()
    return torch.where((p > 0) & (p >= plausible), scores, -torch.inf).softmax(-1)


ENSEMBLE = Rule(
    name="ensemble",
    title="Ensemble",
    summary="Decodes the mixture of target and drafter: exactly w·p + (1 − w)·q on sampled drafts.",
    formula="a = (1 − w) + w·min(1, p/q), R = norm((p − q)₊); temperature 0: argmax(w·p + (1 − w)·q) of both softmaxes",
    source="transformers assistant_ensemble_weight (2604.07622); chains of a drafter with probabilities; the default is ours",
    accept=ensemble,
    parameters=(Parameter("weight", "w", 0.7, 0.0, 1.0, "w: weight of the target; 1 is strict"),),
    siblings=Siblings.REFUSED,
    target_override=ensemble_distribution,
    chance=lambda values: 1 - values["weight"],
    needs_distribution=True,
)
CASCADE_TOKEN = Rule(
    name="cascade-token",
    title="Token cascade",
    summary="Uses the drafter where its token is nearly as probable as the target's best, and defers to the target elsewhere.",
    formula="π = q·1_A + η·p, A = {p ≥ (1 − α)·max p}, η = 1 − q(A); a = min(1, π/q), R = norm((π − q)₊)",
    source="speculative cascades 2405.19261, token-specific rule",
    accept=cascade_token,
    parameters=(
        Parameter("alpha", "α", 0.3, 0.0, 1.0, "α: how far below the best a trusted token may be"),
    ),
    target_override=cascade_distribution,
)
CONTRASTIVE = Rule(
    name="contrastive",
    title="Contrastive decoding",
    summary="Decodes what the target prefers more than the drafter does, among the target's plausible tokens.",
    formula="π ∝ p^(1 + β)·q^(−β) where p ≥ α·max p; a = min(1, π/q), R = norm((π − q)₊); temperature 0: argmax π of both softmaxes",
    source="speculative contrastive decoding 2311.08981; spec_cont_dec of graphcore-research/relaxed-spec-dec-repro",
    accept=contrastive,
    parameters=(
        Parameter("beta", "β", 0.5, 0.0, 10.0, "β: weight of the contrast; 0 with α = 0 is strict"),
        Parameter(
            "alpha", "α", 0.1, 0.0, 1.0, "α: least share of max p that a token needs; 0: any token"
        ),
    ),
    siblings=Siblings.REFUSED,
    target_override=contrastive_distribution,
    modes=(DraftMode.SAMPLED,),
    needs_distribution=True,
)
