"""What a rule decides by: the evidence of a draft, and the state of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from mars_core.lazy import torch

Values = Mapping[str, float]
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
        """Return values at the position of each row, [P, …] → [E, …]."""
        return values[: len(self.x)] if self.at is None else values[self.at]

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of the candidates, [E, C], from those of all tokens at all positions, [P,
        V]."""
        if self.at is None or self.x.shape[-1] == values.shape[-1]:
            rows = self.per_row(values)
            return rows if self.x.shape[-1] == values.shape[-1] else rows.gather(-1, self.x)
        return values[self.at[:, None], self.x]

    @property
    def both(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The distributions of target and drafter, 0 where it has none, at the position of each row,
        [E, V] each; at temperature 0 of both softmaxes."""
        q = torch.zeros_like(self.soft) if self.drafter is None else self.drafter
        return self.per_row(self.soft), self.per_row(q)

    @property
    def p(self) -> torch.Tensor:
        """p of the candidates, [E, C]."""
        return self.of(self.distribution)

    def largest(self, distribution: torch.Tensor) -> torch.Tensor:
        """Return the largest value of a distribution at the position of each row, [P, V] → [E, 1]."""
        return self.per_row(distribution.amax(-1, keepdim=True))

    def beside_best(self, share: float) -> torch.Tensor:
        """Return whether p of the candidates is at least this share of the largest p, bool [E, C];
        at temperature 0 p = softmax(z)."""
        return self.of(self.soft) >= share * self.largest(self.soft)

    def below_best(self, source: torch.Tensor) -> torch.Tensor:
        """Return how far below the largest value at their position those of the candidates are,
        [E, C], by values of all tokens, [P, V]."""
        return self.largest(source) - self.of(source)

    def over_q(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of the candidates divided by q, [E, C]."""
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
