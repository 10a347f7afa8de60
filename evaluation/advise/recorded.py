"""What a rule decides about a recorded token, where its decision follows from the logits of the best
tokens and from the rank and probability of the drafted one."""

from __future__ import annotations

import math

from mars_core.lazy import torch
from mars_core.rules import RULES, WHERE, Evidence, expressions
from mars_core.rules.expression import SCORE
from mars_core.types import RuleConfig, Token

# of other rules' measurements a trace has not enough
_AT_0 = ("lenience", "mars-algorithm1", "threshold", "topk-delta", "topk-ratio")
_MOST_OTHERS = 1000


def is_recorded(rule: RuleConfig, temperature: float) -> bool:
    """Return whether the decisions of a rule follow from recorded tokens: at temperature 0, and
    above it of rules with a margin threshold."""
    read = {name for each in expressions(rule.parameters).values() for name in each.names}
    known = rule.name in RULES and (
        RULES[rule.name].relaxes is not None or (temperature == 0 and rule.name in _AT_0)
    )
    return known and not RULES[rule.name].lossless and not read & {"thinking", SCORE}


def decides(rule: RuleConfig, token: Token) -> bool:
    """Return whether the rule decides at the position of the token, and not strict."""
    return _values(rule, token).get(WHERE.name, 1.0) > 0


def relaxes(rule: RuleConfig, token: Token, temperature: float) -> bool:
    """Return whether the rule keeps a drafted token that strict rejects there."""
    values = _values(rule, token)
    accept = RULES[rule.name].accept(_evidence(token, temperature), values)
    return values.get(WHERE.name, 1.0) > 0 and float(accept) >= 1


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


def _evidence(token: Token, temperature: float) -> Evidence:
    """Return evidence with the recorded tokens in place of the vocabulary: the best ones, the
    drafted one at its rank, and others, none of them more probable, with the rest of the
    probability."""
    top = [alternative.p for alternative in token.top]
    ids = [alternative.id for alternative in token.top]
    if token.id in ids:
        x = ids.index(token.id)
    else:
        x, p = (
            max(token.rank - 1, len(top)),
            math.exp(token.logprob) if temperature == 0 else token.p,
        )
        top += [(top[-1] + p) / 2] * (x - len(top)) + [p]
    rest = max(0.0, 1 - sum(top))
    others = min(_MOST_OTHERS, math.ceil(rest / max(top[-1], 1e-9)) + 1)
    soft = torch.tensor([[*top, *[rest / others] * others]], dtype=torch.float64)
    logits = token.z1 + (temperature or 1.0) * (soft / top[0]).log()
    logits[0, 1] = token.z2
    one = torch.ones(1, 1, dtype=torch.float64)
    greedy = temperature == 0
    return Evidence(
        logits=logits,
        distribution=(torch.arange(soft.shape[-1]) == 0).double()[None] if greedy else soft,
        soft=soft,
        drafter=None,
        top_z=logits[:, :2],
        top_ids=torch.tensor([[0, 1]]),
        at=None,
        x=torch.tensor([[x]]),
        q=one,
        confidence=one,
        tried=one * 0,
        greedy=greedy,
    )
