"""What a verification rule is: one pure function from evidence to the probability of keeping a drafted token.

``accept`` serves greedy drafts (chains and trees) and sampled drafts alike: what a token was drafted with is ``Evidence.q``, which
is 1 for a greedy draft. The law of the emitted token, its distance from p and the decisions themselves follow in ``verification``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from mars_core.lazy import torch
from mars_core.types import DraftMode


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a rule may look at: P places of the draft, and E rows of candidates, each judged at one of the places.

    C = 1 candidate a row on greedy drafts (the drafted token), C = V on sampled ones (the whole vocabulary).
    """

    logits: torch.Tensor  # [P, V] z, the target's raw logits
    law: torch.Tensor  # [P, V] p, the target's law: one-hot at temperature 0
    soft: torch.Tensor  # [P, V] p; at temperature 0, where that says only which token is the best, softmax(z)
    drafter: torch.Tensor | None  # [P, V] the drafter's law at the place, where it has one and the draft is a chain
    top_z: torch.Tensor  # [P, ≥2] the largest logits, in falling order
    top_ids: torch.Tensor  # [P, ≥2] their ids
    at: torch.Tensor | None  # [E] the place of each row; None: row e is judged at place e
    x: torch.Tensor  # [E, C] candidate ids
    q: torch.Tensor  # [E, C] probability with which the candidate was drafted: 1 on greedy drafts
    confidence: torch.Tensor  # [E, C] the drafter's own probability of it, on greedy drafts too (1 where it has none)
    tried: torch.Tensor  # [E, 1] p of the siblings before this one, which were refused; 0 in a chain
    greedy: bool  # temperature 0

    def place(self, values: torch.Tensor) -> torch.Tensor:
        """Values at the place of each row, [P, …] → [E, …]."""
        return values[: len(self.x)] if self.at is None else values[self.at]

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the candidates, [E, C], from those of all tokens at all places, [P, V]."""
        if self.at is None or self.x.shape[-1] == values.shape[-1]:
            placed = self.place(values)
            return placed if self.x.shape[-1] == values.shape[-1] else placed.gather(-1, self.x)
        return values[self.at[:, None], self.x]

    @property
    def p(self) -> torch.Tensor:
        """p of the candidates, [E, C]."""
        return self.of(self.law)

    def largest(self, law: torch.Tensor) -> torch.Tensor:
        """The largest value of a law at the place of each row, [P, V] → [E, 1]."""
        return self.place(law.amax(-1, keepdim=True))

    @property
    def ratio(self) -> torch.Tensor:
        """p/q of the candidates, [E, C]; it may exceed 1."""
        return self.p / self.q.clamp(min=torch.finfo(self.q.dtype).tiny)

    @property
    def strict(self) -> torch.Tensor:
        """The lossless acceptance probability min(1, p/q), [E, C]."""
        return self.ratio.clamp(max=1)

    def z(self, rank: int) -> torch.Tensor:
        """The logit of that rank, 1 or 2, at the place of each row, [E, 1], float64."""
        return self.place(self.top_z)[:, rank - 1 : rank].double()

    def is_top(self, rank: int) -> torch.Tensor:
        """Whether the candidate is the target's best token (1) or its second best (2), bool [E, C]."""
        return self.x == self.place(self.top_ids)[:, rank - 1 : rank]


PLAIN = "none"  # name of the rule without drafts, and of its drafter: neither goes without the other
Values = Mapping[str, float]
Function = Callable[[Evidence, Values], "torch.Tensor"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a rule takes, with the closed range in which it means something."""

    name: str
    default: float
    low: float
    high: float
    help: str


class Siblings(Enum):
    """How a rule judges several drafted continuations of one place."""

    OWN_FIRST = "own first"  # the one that the target drew is kept; else each may be forgiven in turn
    IN_TURN = "in turn"  # each is kept with probability ``accept``, given that those before it were refused
    REFUSED = "refused"  # the rule is defined for chains only


class Reach(Enum):
    """What a decision depends on."""

    TOKEN = "token"  # its own place
    WINDOW = "window"  # forgiven only if the next ``window`` drafted tokens pass strict's test
    BLOCK = "block"  # all drafted tokens at once, on sampled drafts (on greedy ones it comes to the same as TOKEN)


@dataclass(frozen=True, slots=True)
class Rule:
    """``accept(evidence, values)`` → [E, C] in [0, 1]: how probably a drafted token is kept. All texts are shown to the user.

    ``redraw`` → bool [E, 1]: where a refused token is replaced by a draw from p itself; elsewhere it is one from what p has more
    than q (greedy drafts with ``OWN_FIRST`` need no correction: the own draw stands there).
    ``aim`` → [E, V]: the law that is corrected to in place of p, on sampled drafts and at temperature 0.
    """

    name: str
    summary: str
    formula: str
    source: str
    accept: Function
    parameters: tuple[Parameter, ...] = ()
    siblings: Siblings = Siblings.OWN_FIRST
    best_first: bool = False  # siblings in falling order of the target's logits, not in draft order
    emits_top1: bool = False  # in place of a refused token, at every temperature
    redraw: Function | None = None
    aim: Function | None = None
    reach: Reach = Reach.TOKEN
    modes: tuple[DraftMode, ...] = tuple(DraftMode)  # for which the rule is defined; empty: it takes no drafts
    needs_law: bool = False  # of the drafter, which n-gram lookup has not

    def values(self, given: Mapping[str, float]) -> dict[str, float]:
        """All parameters, the given ones over the defaults; a ValueError names what does not fit."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name, value in given.items():
            if name not in known:
                expected = ", ".join(known) or "none"
                raise ValueError(f"Rule {self.name} has no parameter {name}; its parameters: {expected}.")
            low, high = known[name].low, known[name].high
            if not low <= value <= high:
                raise ValueError(f"{name} is {value:g}; rule {self.name} takes {low:g} to {high:g}.")
        return {name: float(given.get(name, parameter.default)) for name, parameter in known.items()}


def strict(evidence: Evidence, values: Values) -> torch.Tensor:
    """min(1, p/q): keeps what the target itself would say, no more."""
    return evidence.strict


def everywhere(evidence: Evidence, values: Values) -> torch.Tensor:
    """A refused token is always replaced by a draw from p itself."""
    return torch.ones_like(evidence.tried, dtype=torch.bool)
