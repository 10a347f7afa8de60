"""What a form offers for a parameter of a rule: its default, step, values worth trying, and what is
wrong with an expression. Plain values."""

from __future__ import annotations

from mars_core.models import PairSpec
from mars_core.models.catalog import PAPER_THETA, Theta
from mars_core.rules import Parameter, Rule

STUDIED_THETAS = (0.84, 0.9, 0.96)
EXAMPLES = ("0.9 - 0.1*min(1, entropy/2)", "thinking")  # of a parameter, of WHERE


def default_theta(spec: PairSpec | None) -> Theta:
    """A pair of one's own has the paper's."""
    return spec.theta if spec else PAPER_THETA


def suggestion(parameter: Parameter, spec: PairSpec | None) -> str:
    """Values worth trying: around the paper's θ with the pair's own, else around the default."""
    if parameter.name == "theta":
        found = sorted({*STUDIED_THETAS, default_theta(spec).value})
    else:
        wide = [parameter.default * factor for factor in (0.25, 0.5, 1, 1.5, 2)]
        wide = wide if parameter.default else [parameter.low, parameter.high]
        fitting = (min(max(value, parameter.low), parameter.high) for value in wide)
        found = [
            float(round(value)) if parameter.is_integer else float(f"{value:.3g}")
            for value in fitting
        ]
    return ", ".join(f"{value:g}" for value in dict.fromkeys(found))


def step_of(parameter: Parameter) -> float:
    return 0.01 if parameter.high <= 1 else 1 if parameter.is_integer else 0.1


def expression_error(rule: Rule, name: str, text: str) -> str:
    """What is wrong with a typed value; empty where nothing is, or nothing was typed."""
    try:
        rule.values({name: text} if text.strip() else {})
    except ValueError as error:
        return str(error)
    return ""
