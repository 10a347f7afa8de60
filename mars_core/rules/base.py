"""Verification rules: a rule is a pure function from evidence to the probability of keeping a
drafted token.

``accept`` is used for greedy drafts (chains and trees) and sampled drafts: ``Evidence.q`` is the
drafting probability, which is 1 for a greedy draft. ``verification`` computes the decisions, the
distribution of the emitted token and its distance from p.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from mars_core.lazy import torch
from mars_core.rules.expression import parse
from mars_core.types import DraftMode, Parameters, ShiftKind, number_text, value_text

# What a step offers rules beside logits and draft, by name. A new one needs its producer
# (``verifier_of`` in mars_core/engine/build.py) and the rule that reads it.
Signals = Mapping[str, "torch.Tensor"]
NO_SIGNALS: Signals = MappingProxyType({})


class State(NamedTuple):
    """Of the run at each position, known before the draw, [P, 1] float64."""

    position: torch.Tensor  # of the output
    thinking: torch.Tensor  # 1 within a thinking phase, else 0
    tv: torch.Tensor  # of the output before the step
    regret: (
        torch.Tensor
    )  # what relaxed tokens before the position have charged (``Rule.regret_cost``)
    relaxed: torch.Tensor  # how many of them are in this draft
    lot: torch.Tensor  # of the next rejections, bit by bit, which are relaxed (``Rule.lot``)
    left: torch.Tensor  # drafted tokens from the position on
    charge: torch.Tensor | None  # [N, 1] of each drafted token
    parameters: Mapping[str, torch.Tensor]  # values of those that are expressions


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of a rule: P positions of the draft, and E rows of candidates, each decided at one
    of the positions. C = 1 candidate a row on greedy drafts (the drafted token), C = V on sampled
    ones (the full vocabulary)."""

    logits: torch.Tensor  # [P, V] z, the target's logits after penalties and biases, before warpers
    distribution: torch.Tensor  # [P, V] p, the target's distribution: one-hot at temperature 0
    soft: torch.Tensor  # [P, V] p; at temperature 0, where p is one-hot, softmax(z)
    drafter: (
        torch.Tensor | None
    )  # [P, V] q at the position, if the drafter has one and the draft is a chain
    top_z: torch.Tensor  # [P, ≥2] the largest logits, descending
    top_ids: torch.Tensor  # [P, ≥2] their ids
    at: torch.Tensor | None  # [E] the position of each row; None: row e is decided at position e
    x: torch.Tensor  # [E, C] candidate ids
    q: torch.Tensor  # [E, C] probability with which the candidate was drafted: 1 on greedy drafts
    confidence: (
        torch.Tensor
    )  # [E, C] the drafter's probability of it, also on greedy drafts (1 where it has none)
    tried: torch.Tensor  # [E, 1] total p of the rejected siblings before this one; 0 in a chain
    greedy: bool  # temperature 0
    state: State | None = None  # where the rule or a parameter reads it
    # [E, …] by name, of the drafted token of each row; only those that there are
    signals: Signals = field(default_factory=dict)

    def resolved(self, values: Values) -> Values:
        """Return the values, with those that are expressions, [E, 1]."""
        if self.state is None:
            return values
        dynamic: Mapping[str, Any] = {
            name: self.per_row(value) for name, value in self.state.parameters.items()
        }
        return {**values, **dynamic}

    def per_row(self, values: torch.Tensor) -> torch.Tensor:
        """Values at the position of each row, [P, …] → [E, …]."""
        return values[: len(self.x)] if self.at is None else values[self.at]

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the candidates, [E, C], from those of all tokens at all positions, [P, V]."""
        if self.at is None or self.x.shape[-1] == values.shape[-1]:
            rows = self.per_row(values)
            return rows if self.x.shape[-1] == values.shape[-1] else rows.gather(-1, self.x)
        return values[self.at[:, None], self.x]

    @property
    def proposals(self) -> torch.Tensor:
        """q over the target's vocabulary, at every position that it has; 0 where there is none."""
        return torch.zeros_like(self.soft) if self.drafter is None else self.drafter

    @property
    def both(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The distributions of target and drafter at the position of each row, [E, V] each; at
        temperature 0 of both softmaxes."""
        return self.per_row(self.soft), self.per_row(self.proposals)

    @property
    def p(self) -> torch.Tensor:
        """p of the candidates, [E, C]."""
        return self.of(self.distribution)

    def largest(self, distribution: torch.Tensor) -> torch.Tensor:
        """Return the largest value of a distribution at the position of each row, [P, V] → [E, 1]."""
        return self.per_row(distribution.amax(-1, keepdim=True))

    def over_q(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the candidates divided by q, [E, C]."""
        return values / self.q.clamp(min=torch.finfo(self.q.dtype).tiny)

    @property
    def ratio(self) -> torch.Tensor:
        """p/q of the candidates, [E, C]; it may exceed 1."""
        return self.over_q(self.p)

    @property
    def strict(self) -> torch.Tensor:
        """The lossless acceptance probability min(1, p/q), [E, C]."""
        return self.ratio.clamp(max=1)

    def z(self, rank: int) -> torch.Tensor:
        """Return the logit of that rank, 1 or 2, at the position of each row, [E, 1], float64."""
        return self.per_row(self.top_z)[:, rank - 1 : rank].double()

    def is_top(self, rank: int) -> torch.Tensor:
        """Return whether the candidate is the target's best token (1) or its second best (2), bool
        [E, C]."""
        return self.x == self.per_row(self.top_ids)[:, rank - 1 : rank]


PLAIN = "none"  # name of the rule without drafts and of its drafter, which are used together only
Values = Mapping[str, float]
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
    """``accept(evidence, values)`` → [E, C] in [0, 1]: the probability of keeping a drafted token.
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
