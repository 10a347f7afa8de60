"""Verification rules by name. A new rule is one function in a file of this folder and one entry here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mars_core.rules.base import Emits, Evidence, Parameter, Rule
from mars_core.rules.margin import MARS, MARS_ALGORITHM1, MARS_GAP
from mars_core.rules.strict import STRICT

RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in (STRICT, MARS, MARS_ALGORITHM1, MARS_GAP)})

__all__ = ["RULES", "Emits", "Evidence", "Parameter", "Rule"]
