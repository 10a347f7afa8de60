"""Tokens that no rule relaxes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Rule, Values

_CONTROL = re.compile(r"<.+>|\[.+\]", re.DOTALL)  # an added token such as </think> or [TOOL_CALLS]


def special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of the special tokens of a tokenizer, and of control tokens added to it."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).items()
    return {
        *tokenizer.all_special_ids,
        *(token for token, each in added if each.special or _CONTROL.fullmatch(each.content)),
    }


def protecting(rule: Rule, protected: torch.Tensor) -> Rule:
    """Return the rule with the protected tokens, bool [V], accepted as by strict."""
    if rule.lossless:
        return rule

    def accept(evidence: Evidence, values: Values) -> torch.Tensor:
        return torch.where(protected[evidence.x], evidence.strict, rule.accept(evidence, values))

    def shrink(evidence: Evidence, values: Values) -> torch.Tensor:
        assert rule.residual_scale is not None
        return torch.where(protected[evidence.x], 1.0, rule.residual_scale(evidence, values))

    shrunk = None if rule.residual_scale is None else shrink
    return replace(rule, accept=accept, residual_scale=shrunk, protected=protected)
