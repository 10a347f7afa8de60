"""Verification rules: a rule is a pure function from evidence to the probability of keeping a
drafted token.

``accept`` is used for greedy drafts (chains and trees) and sampled drafts: ``Evidence.q`` is the
drafting probability, which is 1 for a greedy draft. ``verification`` computes the decisions, the
distribution of the emitted token and its distance from p.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any

from mars_core.lazy import torch
from mars_core.rules.evidence import Evidence as Evidence
from mars_core.rules.evidence import Values as Values
from mars_core.rules.expression import parse
from mars_core.types import DraftMode, Parameters, ShiftKind, number_text, value_text

_CONTROL = re.compile(r"<.+>|\[.+\]", re.DOTALL)  # an added token such as </think> or [TOOL_CALLS]
PLAIN = "none"  # name of the rule without drafts and of its drafter, which are used together only
Function = Callable[[Evidence, Values], "torch.Tensor"]
MarginThreshold = Callable[[float, Values], float]
RelaxationChance = Callable[[Values], "torch.Tensor | float"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A numeric parameter of a rule, with its closed range. Only integers are valid if
    ``default`` is an int. One name has one symbol, whichever rule has it."""

    name: str
    symbol: str
    default: float
    low: float
    high: float
    help: str

    @property
    def is_integer(self) -> bool:
        return isinstance(self.default, int)

    def within(self, values: torch.Tensor) -> torch.Tensor:
        """Moved into the range; the default where they are not numbers."""
        return values.nan_to_num(self.default, torch.inf, -torch.inf).clamp(self.low, self.high)


WHERE = Parameter(
    "where", "where", 1.0, 0.0, 1.0, "strict decides at positions at which this is 0"
)  # of every rule that relaxes; it is an expression


class Siblings(Enum):
    """How a rule decides several drafted continuations of one position."""

    TARGET_FIRST = (
        "target first"  # the one that the target drew is accepted; else each may be relaxed in turn
    )
    # each is accepted with probability ``accept``, given that those before it were rejected
    IN_TURN = "in turn"
    REFUSED = "refused"  # the rule is defined for chains only


class Reach(Enum):
    """The tokens that a decision depends on."""

    TOKEN = "token"  # its position
    # the drafted token, which the target has read: of other tokens it is not known
    DRAFTED = "drafted"
    WINDOW = "window"  # relaxed only if the next ``window`` drafted tokens pass strict's test
    BLOCK = (
        "block"  # all drafted tokens at once, on sampled drafts (on greedy ones the same as TOKEN)
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """``accept(evidence, values)`` → [E, C] in [0, 1]: the probability of keeping a drafted token,
    or bool [E, C]: whether it is kept.
    All texts are displayed to the user. ``redraw`` → bool [E, 1]: where a rejected token is
    replaced by a draw from p itself; elsewhere by a draw from norm((p − q)₊) (greedy drafts with
    ``TARGET_FIRST`` need no correction: the target's draw is emitted). ``target_override`` → [E, V]: the
    distribution that replaces p in the correction, on sampled drafts and at temperature 0.
    ``residual_scale`` → s [E, C]: on sampled drafts, a rejected x is replaced by a draw from
    norm((s(x)·p − q)₊). ``margin_threshold``: z₁ → the gap z₁ − z₂ below which the rule sees a near tie, of
    rules with a margin threshold. ``chance``: the probability of relaxing, of rules for which it
    is the same for all tokens above temperature 0. ``switch`` → bool [E, 1]: where every token is
    kept, and none is relaxed elsewhere. ``regret_cost`` → [E, C]: what a relaxed token adds to the
    regret of the run's State, of rules with such a ledger. ``lot``: of its parameters and the
    number of eligible rejections so far, the State's ``lot``, of a rule that draws them
    beforehand; then rejected tokens charge too. ``planned``: the parameters that ``lot`` alone
    reads, so that texts with other values are decided together."""

    name: str
    title: str
    summary: str
    formula: str
    source: str
    accept: Function
    parameters: tuple[Parameter, ...] = ()
    siblings: Siblings = Siblings.TARGET_FIRST
    best_first: bool = (
        False  # siblings in descending order of the target's logits, not in draft order
    )
    emits_top1: bool = False  # replaces a rejected token by top-1, at every temperature
    redraw: Function | None = None
    target_override: Function | None = None
    residual_scale: Function | None = None
    margin_threshold: MarginThreshold | None = None
    chance: RelaxationChance | None = None
    switch: Function | None = None
    regret_cost: Function | None = None
    lot: Callable[[Values, int], float] | None = None
    planned: tuple[str, ...] = ()
    reach: Reach = Reach.TOKEN
    relaxes: int | None = (
        None  # it keeps only the target's token and this many best ones; None: maybe any
    )
    modes: tuple[DraftMode, ...] = tuple(
        DraftMode
    )  # draft modes for which the rule is defined; empty: no drafts
    tightens: bool = False  # on greedy drafts it may refuse the token that the target draws
    needs_distribution: bool = False  # the drafter's q; drafts from the text have none
    # bool [V]: tokens that are decided as by strict (``protection``); None: no token
    protected: torch.Tensor | None = None

    @property
    def lossless(self) -> bool:
        """Whether the distribution of the text is p, whatever is drafted."""
        return self.relaxes == 0

    def shift_kind(self, chain: bool) -> ShiftKind:
        """Return the kind of TV and KL on coupled drafts above temperature 0, chains or trees
        (``verification.coupled``)."""
        mixes = self.chance is not None or self.switch is not None  # P is made of p and q
        if self.lossless or (chain and (self.emits_top1 or self.relaxes == 2 or mixes)):
            return ShiftKind.EXACT
        return (
            ShiftKind.BOUND
            if self.emits_top1 or (chain and self.reach is Reach.TOKEN)
            else ShiftKind.MISSING
        )

    @property
    def settable(self) -> tuple[Parameter, ...]:
        """Its parameters, and WHERE of rules that relax."""
        return self.parameters if self.lossless else (*self.parameters, WHERE)

    def values(self, overrides: Parameters) -> dict[str, float | str]:
        """Return all parameters: defaults, overridden by ``overrides``; an expression is a string.
        Raises ValueError with name, value and range."""
        known = {parameter.name: parameter for parameter in self.settable}
        read = {name: as_value(value) for name, value in overrides.items()}
        if WHERE.name in read:
            read[WHERE.name] = value_text(read[WHERE.name])
        for name, value in read.items():
            if name not in known:
                expected = ", ".join(known) or "none"
                raise ValueError(
                    f"Rule {self.name} has no parameter {name}; its parameters: {expected}."
                )
            low, high, is_integer = known[name].low, known[name].high, known[name].is_integer
            if isinstance(value, str):
                _check(name, value, is_integer)
            elif not low <= value <= high or (is_integer and value != int(value)):
                kind = ", whole numbers only" if is_integer else ""
                raise ValueError(
                    f"{name} is {number_text(value)}; rule {self.name} takes {low:g} to "
                    f"{high:g}{kind}."
                )
        defaults = {parameter.name: float(parameter.default) for parameter in self.parameters}
        return defaults | read


def as_value(value: float | str) -> float | str:
    """Read a number, or an expression."""
    try:
        return float(value)
    except ValueError:
        return str(value).strip()
    except OverflowError:  # an integer beyond all floats
        return float(str(Decimal(value)))


def _check(name: str, text: str, is_integer: bool) -> None:
    if is_integer:
        raise ValueError(f"{name} is {text!r}; it takes one whole number for the run.")
    try:
        parse(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}.") from None


def entropy_of(distribution: torch.Tensor) -> torch.Tensor:
    """Return it in nats, [N, V] → [N, 1]."""
    return -torch.xlogy(distribution, distribution).sum(-1, keepdim=True)


def strict(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return min(1, p/q), the lossless acceptance probability."""
    return evidence.strict


def keeping(test: Function) -> Function:
    """``accept`` of a rule that keeps what passes the test, bool [E, 1] or [E, C], and else is
    strict."""
    return lambda evidence, values: torch.where(test(evidence, values), 1.0, evidence.strict)


def everywhere(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return true everywhere: a rejected token is always replaced by a draw from p itself."""
    return torch.ones_like(evidence.tried, dtype=torch.bool)


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
