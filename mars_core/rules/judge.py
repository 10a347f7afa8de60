"""Judge decoding: a classifier of the target's hidden states calls mismatches harmless."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Reach, Rule, Values, keeping
from mars_core.rules.expression import SCORE


def harmless(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, 1]: the score of the drafted token is below c; nowhere without a score."""
    if SCORE not in evidence.signals:
        return torch.zeros_like(evidence.tried, dtype=torch.bool)
    return evidence.signals[SCORE] < values["harm"]


JUDGE = Rule(
    name="judge",
    title="Judge",
    summary="Keeps a drafted token that a classifier, trained on the target's hidden states, calls harmless.",
    formula="keep x iff s(x) < c, else strict; s: classifier of the target's last hidden state after x; R = norm((p − q)₊)",
    source="judge decoding 2501.19309, as AutoJudge 2504.20039 (garipovroma/autojudge) trains it",
    accept=keeping(harmless),
    parameters=(
        Parameter("harm", "c", 0.5, 0.0, 1.0, "c: tokens with a lower score are kept; 0 is strict"),
    ),
    reach=Reach.DRAFTED,
)
