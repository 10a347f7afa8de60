"""Rules on the page: those of the first lanes, what is said of one, the steps of its parameters. No gradio."""

from __future__ import annotations

from mars_core.rules import RULES, Parameter, Rule, Siblings
from mars_core.types import DraftMode
from ui.kit.panel import render

DEFAULT_RULES = ("strict", "mars", "lenience", "typical")
STEP = 0.01  # of parameters between 0 and 1


def rule_html(name: str) -> str:
    """What the page says under the chooser: summary, formula, source and limits of a rule."""
    rule = RULES[name]
    return render("settings/templates/rule.html.jinja", rule=rule, source=" · ".join([rule.source, *_limits(rule)]))


def _limits(rule: Rule) -> list[str]:
    """For which drafts the rule is not defined, in words."""
    chains = ["chains only, no tree"] if rule.siblings is Siblings.REFUSED else []
    modes = [f"{mode.value} drafts only" for mode in rule.modes] if len(rule.modes) < len(DraftMode) else []
    distribution = ["needs the drafter’s probabilities"] if rule.needs_distribution else []
    return [*chains, *modes, *distribution]


def step_of(parameter: Parameter) -> float:
    return STEP if parameter.high <= 1 else 1 if parameter.whole else 0.1
