"""A rule as text, ``mars(theta=0.9)``, and a number as text or JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mars_core.numbers import quoted, read_number
from mars_core.rules import split_values
from ui.settings.form import LaneForm
from ui.settings.readers import rule_named

_RULE = re.compile(r"([a-z0-9-]+)\s*(?:\((.*)\))?", re.DOTALL)
_LONGEST_RULE = 1000  # characters, of several expressions


def read_rule_text(text: object) -> tuple[str, dict[str, str]]:
    """Name and values of ``mars(theta=0.9)``. Raises ValueError."""
    match = (
        _RULE.fullmatch(text.strip())
        if isinstance(text, str) and len(text) <= _LONGEST_RULE
        else None
    )
    if match is None:
        raise ValueError(f'A rule is {quoted(text)}; write it like "strict" or "mars(theta=0.9)".')
    pairs = [part.partition("=") for part in split_values(match[2] or "") if part]
    named = {key.strip(): value.strip() for key, _, value in pairs}
    if len(named) < len(pairs):
        raise ValueError(f"A rule is {quoted(text)}; each parameter can have one value.")
    return match[1], named


def rule_of(name: str, parameters: Mapping[Any, object]) -> LaneForm:
    """Raises ValueError for an unknown rule, a parameter that it does not have, or one out of its
    range."""
    rule = rule_named(name)
    values = {str(key): _value(value, str(key)) for key, value in parameters.items()}
    return LaneForm(name, rule.values(values))


def _value(value: object, name: str) -> float | str:
    """A number, or a text that may be an expression. Raises ValueError."""
    return value if isinstance(value, str) else read_number(value, name)
