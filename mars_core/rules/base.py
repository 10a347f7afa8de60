"""What a verification rule is: one pure function from evidence to forgiveness, and what must be said about it.

``forgive`` gives the probability of keeping a drafted token although the target drew another one. Everything else of a rule
(the law of greedy drafts, the pair (a, R) of sampled drafts, the distance from p) follows from it in ``verification``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row a judged node, one column a candidate token: C = 1 for the drafted token, C = V for the whole vocabulary."""

    z: Tensor  # [E, V] raw target logits
    p: Tensor  # [E, V] the target's law
    x: Tensor  # [E, C] candidate ids
    top_z: Tensor  # [E, ≥2] the largest logits, in falling order
    top_ids: Tensor  # [E, ≥2] their ids

    @property
    def is_top1(self) -> Tensor:
        return self.x == self.top_ids[:, 0:1]

    @property
    def is_top2(self) -> Tensor:
        return self.x == self.top_ids[:, 1:2]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that a rule takes, with the closed range in which it means something."""

    name: str
    default: float
    low: float
    high: float
    help: str


Forgive = Callable[[Evidence, Mapping[str, float]], Tensor]


class Emits(Enum):
    """What a rule emits where it keeps nothing."""

    OWN = "own"  # the target's own draw
    TOP1 = "top1"  # the target's likeliest token, at every temperature


@dataclass(frozen=True, slots=True)
class Rule:
    """``forgive(evidence, parameters)`` → [E, C] in [0, 1]; ``formula`` and ``source`` are shown to the user."""

    name: str
    summary: str
    formula: str
    source: str
    forgive: Forgive
    parameters: tuple[Parameter, ...] = ()
    emits: Emits = Emits.OWN

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


def never(evidence: Evidence, parameters: Mapping[str, float]) -> Tensor:
    """Forgives nothing."""
    return torch.zeros(evidence.x.shape, dtype=evidence.p.dtype, device=evidence.p.device)
