"""Accumulated-regret decoding (ASD): mismatches of small regret, within a budget of the run."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Rule, Siblings, Values


def regret(evidence: Evidence, values: Values) -> torch.Tensor:
    """max z − z(x), or with ``scale`` 1 max p − p(x); at temperature 0 p = softmax(z). [E, C]."""
    source = evidence.soft if values["scale"] else evidence.logits
    return evidence.below_best(source).double()


def asd(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 1 where the regret is at most g for each drafted token from x on, B has room for it,
    and fewer than M tokens of the draft were relaxed before; else strict."""
    assert evidence.state is not None, "the rule has a ledger"
    state, charge = evidence.state, regret(evidence, values)
    left, spent, relaxed = map(evidence.per_row, (state.left, state.regret, state.relaxed))
    fits = (charge <= values["gate"] * left) & (spent < values["budget"])
    fits &= (spent + charge <= values["budget"]) & (relaxed < values["mismatches"])
    return torch.where(fits, 1.0, evidence.strict)


ASD = Rule(
    name="asd",
    title="Accumulated regret",
    summary="Relaxes a few tokens a draft whose logits are near the best, until the run has spent its budget of regret.",
    formula="relax x iff r ≤ g·(K − i), Σr ≤ B over the run, and at most M a draft; r = max z − z(x) of the i-th drafted token, from 0",
    source="approximate speculative decoding 2608.03447; temperature 0 there",
    accept=asd,
    regret_cost=regret,
    siblings=Siblings.REFUSED,
    parameters=(
        Parameter("budget", "B", 8.0, 0.0, 1e5, "B: regret that a run may spend; 0 is strict"),
        Parameter(
            "gate", "g", 0.25, 0.0, 1e3, "g: regret a token, for each drafted one from it on"
        ),
        Parameter("mismatches", "M", 2, 0, 64, "M: relaxed tokens of a draft; 0 is strict"),
        Parameter("scale", "scale of r", 0, 0, 1, "regret: 0 of logits, 1 of probabilities"),
    ),
)
