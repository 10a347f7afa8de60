"""The drafted tokens of ``FlatDrafts`` as children of their nodes: sums and products over siblings,
for chains and for trees. N: the drafted tokens of all A texts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Chain:
    """Every drafted token is the only child of its node. float64."""

    texts: int  # A
    p: Tensor  # [N] p of each
    distinct: Tensor  # [N] 1
    nothing: Tensor  # [N] 0

    def at_parent(self, values: Tensor) -> Tensor:
        """Values at the parent of each drafted token, [N + A] → [N]."""
        return values[: len(self.p)]

    def sum_over_siblings(self, values: Tensor) -> Tensor:
        """Sums over each and its siblings, [N] → [N]."""
        return values

    def sum_before(self, values: Tensor) -> Tensor:
        """Sums over the siblings judged before each, [N] → [N]."""
        return self.nothing

    def product_before(self, values: Tensor) -> Tensor:
        """Products over the siblings judged before each, [N] → [N]."""
        return self.distinct

    def any(self, marks: Tensor) -> Tensor:
        """Whether any child of each node is marked, bool [N] → bool [N + A]."""
        return torch.nn.functional.pad(marks, (0, self.texts))


@dataclass(frozen=True, slots=True)
class Branches:
    """As ``Chain``, with siblings."""

    texts: int
    p: Tensor  # [N] 0 where ``distinct`` is 0
    distinct: Tensor  # [N] 0 for a sibling that repeats an earlier one, else 1
    parents: Tensor  # [N] long
    before: Tensor  # bool [A, n, n]: the column's node is a sibling judged before the row's

    def at_parent(self, values: Tensor) -> Tensor:
        return values[self.parents]

    def sum_over_siblings(self, values: Tensor) -> Tensor:
        return self._sum(values)[self.parents]

    def sum_before(self, values: Tensor) -> Tensor:
        return (self.before * self._by_text(values)).sum(-1).flatten()

    def product_before(self, values: Tensor) -> Tensor:
        return torch.where(self.before, self._by_text(values), 1.0).prod(-1).flatten()

    def any(self, marks: Tensor) -> Tensor:
        return self._sum(marks.double()) > 0

    def _by_text(self, values: Tensor) -> Tensor:
        return values.view(self.texts, 1, -1)

    def _sum(self, values: Tensor) -> Tensor:
        """Over the children of each node, [N] → [N + A]."""
        return values.new_zeros(len(values) + self.texts).index_add_(0, self.parents, values)


Children = Chain | Branches
