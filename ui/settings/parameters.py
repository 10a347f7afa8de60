"""What a form says of a parameter of a rule: its default, step, values worth trying, what is wrong
with an expression, and what a threshold means on the chosen pair. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mars_core.margins import Margins, sentence
from mars_core.models import PairSpec
from mars_core.models.catalog import PAPER_THETA, Theta
from mars_core.rules import RULES, Parameter, Rule
from mars_core.types import RuleConfig

STUDIED_THETAS = (0.84, 0.9, 0.96)
UNMEASURED = "What this threshold means on this pair is measured once its models are loaded."
EXAMPLES = ("0.9 - 0.1*min(1, entropy/2)", "thinking")  # of a parameter, of WHERE


def default_theta(spec: PairSpec | None) -> Theta:
    """Return the θ of a pair; a custom one has the paper's."""
    return spec.theta if spec else PAPER_THETA


def suggestion(parameter: Parameter, spec: PairSpec | None) -> str:
    """Values worth trying: around the paper's θ with the pair's own, else around the default."""
    if parameter.name == "theta":
        values = sorted({*STUDIED_THETAS, default_theta(spec).value})
    else:
        wide = [parameter.default * factor for factor in (0.25, 0.5, 1, 1.5, 2)]
        wide = wide if parameter.default else [parameter.low, parameter.high]
        fitting = (min(max(value, parameter.low), parameter.high) for value in wide)
        values = [
            float(round(value)) if parameter.is_integer else float(f"{value:.3g}")
            for value in fitting
        ]
    return ", ".join(f"{value:.16g}" for value in dict.fromkeys(values))


def step_of(parameter: Parameter) -> float:
    return 0.01 if parameter.high <= 1 else 1 if parameter.is_integer else 0.1


def expression_error(rule: Rule, name: str, text: str) -> str:
    """Return what is wrong with a typed value; empty where nothing is, or nothing was typed."""
    try:
        rule.values({name: text} if text.strip() else {})
    except ValueError as error:
        return str(error)
    return ""


class ThresholdNote(NamedTuple):
    """``waits``: the lines will say more once the models are loaded. ``other``: the θ that a button
    offers, and whose it is."""

    lines: tuple[str, ...]
    waits: bool = False
    other: str = ""


def threshold_note(
    rules: Sequence[RuleConfig], margins: Margins, theta: Theta
) -> ThresholdNote | None:
    """Return a note of the rules among these that have a threshold; None where there are none.
    ``theta``: the pair's default. Raises ValueError."""
    rules = [rule for rule in rules if rule.name in RULES and RULES[rule.name].margin_threshold]
    if not rules:
        return None
    lines = [*dict.fromkeys(sentence(rule, margins) for rule in rules)] if margins else [UNMEASURED]
    if not theta.reason or not any("theta" in rule.parameters for rule in rules):
        return ThresholdNote(tuple(lines), not margins)
    other = other_theta(rules, theta)
    whose = "this pair’s" if other is theta else "the paper’s"
    return ThresholdNote((*lines, theta.sentence), not margins, f"θ = {other.value:g}, {whose}")


def other_theta(rules: Sequence[RuleConfig], theta: Theta) -> Theta:
    """Return what the button offers: the paper's if the pair's is chosen, else the pair's."""
    chosen = [rule.parameters.get("theta") for rule in rules]
    return PAPER_THETA if theta.value in chosen else theta
