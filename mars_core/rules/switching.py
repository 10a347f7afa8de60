"""Rules that decode the drafter's distribution at some positions, and the target's elsewhere."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import (
    Evidence,
    Parameter,
    Rule,
    Siblings,
    Values,
    entropy_of,
    keeping,
)


def close(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, 1]: JS(p, q) < D; at temperature 0 of both softmaxes."""
    p, q = evidence.both
    distance = entropy_of((p + q) / 2) - (entropy_of(p) + entropy_of(q)) / 2
    return distance.clamp(min=0) < values["divergence"]


def confident(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, 1]: max q ≥ max p − α·TV(p, q); at temperature 0 of both softmaxes."""
    p, q = evidence.both
    distance = (p - q).clamp(min=0).sum(-1, keepdim=True)
    best, drafted = p.amax(-1, keepdim=True), q.amax(-1, keepdim=True)
    return drafted >= best - values["alpha"] * distance


FUZZY = Rule(
    name="fuzzy",
    title="Fuzzy",
    summary="Keeps whatever is drafted where the distributions of target and drafter are close.",
    formula="JS(p, q) < D: a = 1, else strict; temperature 0: JS of both softmaxes",
    source="fuzzy speculative decoding 2502.20704; r_fuzzy of graphcore-research/relaxed-spec-dec-repro",
    accept=keeping(close),
    parameters=(
        Parameter(
            "divergence",
            "D",
            0.3,
            0.0,
            0.7,
            "D in nats: the distributions are close below it; 0 is strict",
        ),
    ),
    siblings=Siblings.REFUSED,
    switch=close,
    needs_distribution=True,
)
CASCADE_OPT = Rule(
    name="cascade-opt",
    title="Optimal cascade",
    summary="Keeps whatever is drafted where the drafter is about as confident as the target.",
    formula="max q ≥ max p − α·TV(p, q): a = 1, else strict; temperature 0: of both softmaxes",
    source="speculative cascades 2405.19261, OPT; spec_casc_opt of graphcore-research/relaxed-spec-dec-repro",
    accept=keeping(confident),
    parameters=(
        Parameter("alpha", "α", 0.05, -1.0, 1.0, "α: weight of TV(p, q); 1 keeps every draft"),
    ),
    siblings=Siblings.REFUSED,
    switch=confident,
    needs_distribution=True,
)
