"""What a rule with a margin threshold decides about a recorded token: whether it is one of the target's
two best, where their logits nearly tie."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules import RULES, WHERE, expressions
from mars_core.rules.expression import SCORE
from mars_core.types import RuleConfig, Token


def is_recorded(rule: RuleConfig) -> bool:
    """Return whether the decisions of a rule follow from recorded tokens."""
    known = RULES.get(rule.name)
    read = {name for each in expressions(rule.parameters).values() for name in each.names}
    margin = known is not None and known.relaxes and known.margin_threshold
    return bool(margin) and not read & {"thinking", SCORE}


def decides(rule: RuleConfig, token: Token) -> bool:
    """Return whether the rule decides at the position of the token, and not strict."""
    return _values(rule, token).get(WHERE.name, 1.0) > 0


def relaxes(rule: RuleConfig, token: Token) -> bool:
    """Return whether the rule keeps a drafted token that strict rejects there."""
    room = RULES[rule.name].margin_threshold
    assert room is not None
    near = token.gap < room(token.z1, _values(rule, token))
    return near and token.id in (token.id1, token.id2) and decides(rule, token)


def _values(rule: RuleConfig, token: Token) -> dict[str, float]:
    """Return the values of all parameters there, after a text of strict."""
    numbers = {
        "entropy": token.entropy,
        "p1": token.top[0].p,
        "gap": token.gap,
        "position": token.position,
        "tv": 0.0,
    }
    read = {name: torch.tensor([[value]], dtype=torch.float64) for name, value in numbers.items()}
    known = {each.name: each for each in RULES[rule.name].settable}
    values = RULES[rule.name].values(rule.parameters)
    return {
        name: float(known[name].within(expressions({name: value})[name].value(read)))
        if isinstance(value, str)
        else value
        for name, value in values.items()
    }
