"""Names of rules and parameters as people say them: of the page, and of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mars_core.drafting import described
from mars_core.rules import RULES, split_values
from mars_core.types import SERVER

_SYMBOLS = {each.name: each.symbol for rule in RULES.values() for each in rule.parameters}


def rule_title(name: str) -> str:
    rule = RULES.get(name)
    return rule.title if rule else "Served model" if name == SERVER else name


def parameter_title(name: str) -> str:
    return _SYMBOLS.get(name, name)


def value_text(value: object) -> str:
    """Return the value; ``?`` where there is none."""
    return "?" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def parameters_text(values: Mapping[str, object]) -> str:
    """``θ = 0.9``."""
    return ", ".join(f"{parameter_title(name)} = {value_text(values[name])}" for name in values)


def rule_label(name: str, values: Mapping[str, object]) -> str:
    """``MARS θ = 0.9``."""
    return f"{rule_title(name)} {parameters_text(values)}".strip()


def listed(names: Sequence[str]) -> str:
    """``A, B and C``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def drafts_label(stored: str) -> str:
    """Return the label of ``eagle3 K=3 greedy``, as tables have it: ``EAGLE-3 head, K = 3,
    greedy``; empty where nothing is drafted."""
    if not stored:
        return ""
    kind, *more = stored.split()
    shape = (f"tree {each}" if "/" in each else each.replace("=", " = ") for each in more)
    return ", ".join((described(kind).title, *shape))


def stored_rule_label(stored: str) -> str:
    """Return the label of ``mars(theta=0.9)``, as the store has it."""
    name, _, values = stored.removesuffix(")").partition("(")
    pairs = (value.partition("=") for value in split_values(values) if value)
    return rule_label(name, {key: value for key, _, value in pairs})
