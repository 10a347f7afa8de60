"""Verification rules by name: every ``Rule`` in the files of this folder. A new rule is one
function and one ``Rule`` in one file."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from mars_core.rules.base import (
    PLAIN,
    WHERE,
    Evidence,
    Parameter,
    Reach,
    Rule,
    Siblings,
    as_value,
    protecting,
)
from mars_core.rules.expression import SCORE, expressions, split_values
from mars_core.types import DrafterConfig, DraftMode, RuleConfig, ShiftKind

_FIRST = (
    PLAIN,
    "strict",
    "block",
    "mars",
    "mars-algorithm1",
    "mars-reference",
    "mars-gap",
)  # in lists and menus


def _load_rules() -> dict[str, Rule]:
    """Return every rule in the files of this folder, by name; those of ``_FIRST`` first, the others
    in alphabetical order."""
    modules = [import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
    rules = {
        value.name: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Rule)
    }
    return {name: rules[name] for name in (*_FIRST, *sorted(rules.keys() - set(_FIRST)))}


RULES: Mapping[str, Rule] = MappingProxyType(_load_rules())


def shift_kind(rule: str, drafter: DrafterConfig, temperature: float) -> ShiftKind:
    """Return what TV and KL of such a run are."""
    known = drafter.mode is DraftMode.GREEDY or RULES[rule].reach is not Reach.DRAFTED
    if temperature == 0 or (known and drafter.mode is not DraftMode.COUPLED):
        return ShiftKind.EXACT
    return RULES[rule].shift_kind(chain=drafter.tree is None or drafter.tree.top_k == 1)


def reads_score(rule: RuleConfig) -> bool:
    """Return whether the rule or a parameter reads the pair's classifier."""
    read = any(SCORE in each.names for each in expressions(rule.parameters).values())
    return read or (rule.name in RULES and RULES[rule.name].reach is Reach.DRAFTED)


__all__ = [
    "PLAIN",
    "RULES",
    "WHERE",
    "Evidence",
    "Parameter",
    "Reach",
    "Rule",
    "Siblings",
    "as_value",
    "expressions",
    "protecting",
    "reads_score",
    "shift_kind",
    "split_values",
]
