"""The drafted tokens of ``FlatDrafts`` as children of their nodes: sums and products over siblings,
for chains and for trees. N: the drafted tokens of all A texts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Children:
    """Every drafted token is the only child of its node. float64."""

    texts: int  # A
    p: Tensor  # [N] p of each; 0 where ``distinct`` is 0
    distinct: Tensor  # [N] 1, 0 for a sibling that repeats an earlier one

    def at_parent(self, values: Tensor) -> Tensor:
        """Return values at the parent of each drafted token, [N + A] → [N]."""
        return values[: len(self.p)]

    def sum_over_siblings(self, values: Tensor) -> Tensor:
        """Sums over each and its siblings, [N] → [N]."""
        return values

    def sum_before(self, values: Tensor) -> Tensor:
        """Sums over the siblings decided before each, [N] → [N]."""
        return torch.zeros_like(values)

    def product_before(self, values: Tensor) -> Tensor:
        """Products over the siblings decided before each, [N] → [N]."""
        return self.distinct

    def by_node(self, values: Tensor) -> Tensor:
        """Sums over the children of each node, [N] → [N + A]."""
        return torch.nn.functional.pad(values, (0, self.texts))

    def most(self, values: Tensor) -> Tensor:
        """Return the largest value of the children of each node, [N] → [N + A]; at least 0."""
        return self.by_node(values)

    def any(self, marks: Tensor) -> Tensor:
        """Return whether any child of each node is marked, bool [N] → bool [N + A]."""
        return self.by_node(marks)

    def repeated(self, values: Tensor) -> Tensor:
        """Return values of distinct tokens, also for those that repeat them, [N] → [N]."""
        return values


@dataclass(frozen=True, slots=True)
class Branches(Children):
    """Of trees: with siblings."""

    parents: Tensor  # [N] long
    before: Tensor  # bool [A, n, n]: the column's node is a sibling decided before the row's
    same: Tensor  # bool [A, n, n]: it is the same token after the same node

    def at_parent(self, values: Tensor) -> Tensor:
        return values[self.parents]

    def sum_over_siblings(self, values: Tensor) -> Tensor:
        return self.at_parent(self.by_node(values))

    def sum_before(self, values: Tensor) -> Tensor:
        return (self.before * self._by_text(values)).sum(-1).flatten()

    def product_before(self, values: Tensor) -> Tensor:
        return torch.where(self.before, self._by_text(values), 1.0).prod(-1).flatten()

    def by_node(self, values: Tensor) -> Tensor:
        return self._nothing(values).index_add_(0, self.parents, values)

    def most(self, values: Tensor) -> Tensor:
        return self._nothing(values).scatter_reduce_(0, self.parents, values, "amax")

    def any(self, marks: Tensor) -> Tensor:
        return self.by_node(marks.double()) > 0

    def repeated(self, values: Tensor) -> Tensor:
        return (self.same * self._by_text(values)).sum(-1).flatten()

    def _by_text(self, values: Tensor) -> Tensor:
        return values.view(self.texts, 1, -1)

    def _nothing(self, values: Tensor) -> Tensor:
        return values.new_zeros(len(values) + self.texts)
