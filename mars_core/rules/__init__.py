"""Verification rules by name: every ``Rule`` in the files of this folder. A new rule is one function and one ``Rule`` in one file."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from mars_core.rules.base import PLAIN, Evidence, Parameter, Reach, Rule, Siblings

_FIRST = (PLAIN, "strict", "block", "mars", "mars-algorithm1", "mars-reference", "mars-gap")  # in lists and menus


def _found() -> Iterator[Rule]:
    for file in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{file.name}")
        yield from (value for value in vars(module).values() if isinstance(value, Rule))


def _place(rule: Rule) -> tuple[int, str]:
    return (_FIRST.index(rule.name) if rule.name in _FIRST else len(_FIRST), rule.name)


RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in sorted(_found(), key=_place)})

__all__ = ["PLAIN", "RULES", "Evidence", "Parameter", "Reach", "Rule", "Siblings"]
