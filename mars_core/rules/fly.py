"""FLy: relaxes a mismatch if the drafted tokens after it agree with the target."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import (
    Evidence,
    Parameter,
    Reach,
    Rule,
    Siblings,
    Values,
    entropy_of,
    keeping,
)
from mars_core.types import DraftMode


def unsure(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, C]: −Σ p·ln p over the three best is at least the bar (p not renormalised),
    and p(x) > 0."""
    best = evidence.soft.topk(min(3, evidence.soft.shape[-1])).values
    spread = evidence.per_row(entropy_of(best))
    return (spread >= values["entropy"]) & (evidence.of(evidence.soft) > 0)


FLY = Rule(
    name="fly",
    title="FLy",
    summary="Keeps a token the target did not draw if the target was unsure there and accepts the W tokens that follow.",
    formula="relax x iff −Σ₃ p·ln p ≥ h over the three best, and the next W drafted tokens pass u < p(x)",
    source="FLy 2511.22972, in the form of its vLLM port (code: W = 6, or K − 1 for shorter drafts)",
    accept=keeping(unsure),
    siblings=Siblings.REFUSED,
    reach=Reach.WINDOW,
    modes=(DraftMode.COUPLED, DraftMode.GREEDY),
    parameters=(
        Parameter(
            "window",
            "W",
            4,
            1,
            63,
            "W: drafted tokens after the mismatch that must agree; K or more relaxes nothing",
        ),
        Parameter("entropy", "h", 0.3, 0.0, 2.0, "h in nats: minimum entropy of the three best"),
    ),
)
