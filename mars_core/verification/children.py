"""The drafted tokens as children of their nodes: sums and products over siblings, for chains and
for trees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Chain:
    """Every drafted token is the only child of its node. float64."""

    p: Tensor  # [N] p of each
    distinct: Tensor  # [N] 1
    nothing: Tensor  # [N] 0

    def at_parent(self, values: Tensor) -> Tensor:
        """Values at the parent of each drafted token, [N + 1] → [N]."""
        return values[:-1]

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
        """Whether any child of each node is marked, bool [N] → bool [N + 1]."""
        return torch.cat([marks, marks.new_zeros(1)])


@dataclass(frozen=True, slots=True)
class Branches:
    """As ``Chain``, with siblings."""

    p: Tensor  # [N] 0 where ``distinct`` is 0
    distinct: Tensor  # [N] 0 for a sibling that repeats an earlier one, else 1
    parents: Tensor  # [N] long
    before: Tensor  # bool [N, N]: the column's node is a sibling judged before the row's

    def at_parent(self, values: Tensor) -> Tensor:
        return values[self.parents]

    def sum_over_siblings(self, values: Tensor) -> Tensor:
        return self._sum(values)[self.parents]

    def sum_before(self, values: Tensor) -> Tensor:
        return (self.before * values).sum(-1)

    def product_before(self, values: Tensor) -> Tensor:
        return torch.where(self.before, values, 1.0).prod(-1)

    def any(self, marks: Tensor) -> Tensor:
        return self._sum(marks.double()) > 0

    def _sum(self, values: Tensor) -> Tensor:
        """Over the children of each node, [N] → [N + 1]."""
        return values.new_zeros(len(values) + 1).index_add_(0, self.parents, values)


Children = Chain | Branches
