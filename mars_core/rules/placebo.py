"""Rules without a signal, to compare others with: they relax whatever is drafted."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Rule, Values


def random(evidence: Evidence, values: Values) -> torch.Tensor:
    """f + (1 − f)·min(1, p/q): what strict rejects is relaxed with probability f."""
    return values["probability"] + (1 - values["probability"]) * evidence.strict


def always(evidence: Evidence, values: Values) -> torch.Tensor:
    """1."""
    return torch.ones_like(evidence.strict)


RANDOM = Rule(
    name="random",
    title="Random relaxation",
    summary="Relaxes every rejected token with one probability, whatever the target says: a placebo for rules with a signal.",
    formula="relax x iff u < f; sampled drafts: a = f + (1 − f)·min(1, p/q), R = norm((p − q)₊); so P = (1 − f)·p + f·q",
    source="ours",
    accept=random,
    parameters=(
        Parameter(
            "probability",
            "f",
            0.3,
            0.0,
            1.0,
            "f: probability that a rejected token is relaxed; 0 is strict",
        ),
    ),
    chance=lambda values: values["probability"],
)
ALWAYS = Rule(
    name="always",
    title="Keep all drafts",
    summary="Keeps every drafted token: what a rule can gain at most, and what that costs.",
    formula="a = 1",
    source="ours",
    accept=always,
    chance=lambda _: 1.0,
)
