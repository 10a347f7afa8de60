"""Judge decoding: a classifier of the target's hidden states calls mismatches harmless."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Reach, Rule, Values


def judged(evidence: Evidence, values: Values) -> torch.Tensor:
    """1 where the score of the drafted token is below c, else strict."""
    if evidence.score is None:
        return evidence.strict
    return torch.where(evidence.score < values["harm"], 1.0, evidence.strict)


JUDGE = Rule(
    name="judge",
    title="Judge",
    summary="Keeps a drafted token that a classifier, trained on the target's hidden states, calls harmless.",
    formula="keep x iff s(x) < c, else strict; s: classifier of the target's last hidden state after x; R = norm((p − q)₊)",
    source="judge decoding 2501.19309, as AutoJudge 2504.20039 (garipovroma/autojudge) trains it",
    accept=judged,
    parameters=(
        Parameter("harm", "c", 0.5, 0.0, 1.0, "c: tokens with a lower score are kept; 0 is strict"),
    ),
    reach=Reach.DRAFTED,
)
