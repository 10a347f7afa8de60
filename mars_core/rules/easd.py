"""EASD: refuses drafts where target and drafter are unsure about the same tokens."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Rule, Siblings, Values, entropy_of
from mars_core.types import DraftMode


def easd(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 0 where both are unsure, else strict; at temperature 0 strict."""
    if evidence.greedy:
        return evidence.strict
    return torch.where(unsure(evidence, values), 0.0, evidence.strict)


def unsure(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, 1]: both entropies exceed h, and at least a share o of the N best tokens are
    the same."""
    p, q = evidence.both
    count = min(int(values["n"]), p.shape[-1])
    best, drafted = p.topk(count).indices, q.topk(count).indices
    common = (best[:, :, None] == drafted[:, None]).sum((1, 2))[:, None] / count
    spread = torch.minimum(entropy_of(p), entropy_of(q))
    return (spread > values["entropy"]) & (common >= values["overlap"])


EASD = Rule(
    name="easd",
    title="EASD",
    summary="Stricter than strict: refuses a drafted token where both models are unsure and see the same candidates.",
    formula="a = 0 where H(p) > h, H(q) > h and the N best share o·N tokens, else min(1, p/q); R = norm((p − q)₊); temperature 0: strict",
    source="EASD 2512.23765, from its abstract; R and the defaults are ours",
    accept=easd,
    parameters=(
        Parameter("n", "N", 5, 1, 1000, "N best tokens of each model"),
        Parameter("entropy", "h", 1.0, 0.0, 20.0, "h in nats: both entropies exceed it"),
        Parameter("overlap", "o", 0.8, 0.0, 1.0, "o: least share of the N best that are the same"),
    ),
    siblings=Siblings.REFUSED,
    tightens=True,
    modes=(DraftMode.GREEDY, DraftMode.SAMPLED),
    needs_distribution=True,
)
