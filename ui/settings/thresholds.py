"""What the page says where a threshold of a margin rule is chosen: its meaning on the chosen pair.
Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mars_core.margins import Margins, sentence
from mars_core.models.catalog import PAPER_THETA, Theta
from mars_core.rules import RULES
from mars_core.types import RuleConfig

UNMEASURED = "What this threshold means on this pair is measured once its models are loaded."


class ThresholdNote(NamedTuple):
    """``waits``: the lines will say more once the models are loaded. ``other``: the θ that a button
    offers, and whose it is."""

    lines: tuple[str, ...]
    waits: bool = False
    other: str = ""


def threshold_note(
    rules: Sequence[RuleConfig], margins: Margins, theta: Theta
) -> ThresholdNote | None:
    """Of the rules among these that have a threshold; None where there are none. ``theta``: the
    pair's default. Raises ValueError."""
    rules = [rule for rule in rules if rule.name in RULES and RULES[rule.name].room]
    if not rules:
        return None
    lines = [*dict.fromkeys(sentence(rule, margins) for rule in rules)] if margins else [UNMEASURED]
    if not theta.reason or not any("theta" in rule.parameters for rule in rules):
        return ThresholdNote(tuple(lines), not margins)
    other = other_theta(rules, theta)
    whose = "this pair’s" if other is theta else "the paper’s"
    return ThresholdNote((*lines, theta.sentence), not margins, f"θ = {other.value:g}, {whose}")


def other_theta(rules: Sequence[RuleConfig], theta: Theta) -> Theta:
    """What the button offers: the paper's in place of the pair's, and else the pair's."""
    chosen = [rule.parameters.get("theta") for rule in rules]
    return PAPER_THETA if theta.value in chosen else theta
