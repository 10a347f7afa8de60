"""Drafts as tensors: those of some texts in one shape, and flat, as they are decided together.

Topology as tensors: node 0 is the last committed token, ``parents[i]`` the node before node i + 1.
A chain is the tree with one path. Parents come before their children; siblings are in draft order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.sampling import picked


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft: N nodes after the root, which is the last committed token, or drafts of one shape
    for A texts: then each tensor has a dimension [A, …] before, parents and depths of chains
    excepted. ``ids`` [N + 1], root first; ``parents`` [N] and ``depths`` [N + 1] as above; ``q`` [N] the drafter's probability of
    each drafted token after its parent (1 where it has none); ``distribution`` [N, V'] the
    drafter's full distribution at the position of each drafted token of a chain, V' ≤ V, None where
    there is none. ``depth`` is an upper bound of the depths; ``is_chain``: there is one path;
    ``odds`` [N] of a coupled tree: the shares of the sum of q/E after each parent, by whose
    products along the paths its nodes were chosen."""

    ids: Tensor
    parents: Tensor
    depths: Tensor
    q: Tensor
    depth: int
    is_chain: bool
    distribution: Tensor | None = None
    odds: Tensor | None = None

    @property
    def size(self) -> int:
        """Drafted nodes, without the root."""
        return self.parents.shape[-1]

    def of(self, rows: Sequence[int], count: int, depth: int) -> Draft:
        """Return those of some of the texts, ascending, the first ``count`` nodes, none of them
        deeper than ``depth``."""
        if count == 0:
            return chain_draft(picked(self.ids, rows)[:, :1], picked(self.q, rows)[:, :0])

        def cut(values: Tensor, length: int = count) -> Tensor:
            return values[:length] if values.dim() == 1 else picked(values, rows)[:, :length]

        return Draft(
            cut(self.ids, count + 1),
            cut(self.parents),
            cut(self.depths, count + 1),
            cut(self.q),
            depth,
            self.is_chain,
            None if self.distribution is None else cut(self.distribution),
            None if self.odds is None else cut(self.odds),
        )


class FlatDrafts(NamedTuple):
    """The N drafted tokens of A texts, text by text, as they are decided together. Of N + A nodes
    those that may have children come first, and then the last node of each text."""

    texts: int  # A
    ids: Tensor  # [N + A]
    x: Tensor  # [N] the drafted tokens
    parents: Tensor  # [N] nodes
    q: Tensor  # [N]
    is_chain: bool
    distribution: Tensor | None  # [N, V], 0 for ids that only the target has

    @property
    def size(self) -> int:
        """Drafted tokens of all texts."""
        return len(self.x)

    def tokens(self, emit: Tensor, size: int) -> Tensor:
        """Return the drafted tokens at their parents, and then those emitted after the nodes, [P],
        in the flattened values [P, V], V = ``size``."""
        nodes = torch.cat([self.parents, chain(len(emit), emit.device)[0]])
        return torch.cat([self.x, emit]).add_(nodes, alpha=size)

    @staticmethod
    def of(draft: Draft, texts: int, size: int) -> FlatDrafts:
        """Return those of ``texts`` texts, or of one text as often; ``size``: V."""
        count, known, ids = draft.size, draft.distribution, draft.ids
        parents = chain(texts * count, ids.device)[0]
        if not draft.is_chain:
            parents = (draft.parents.view(texts, count) + parents[::count, None]).flatten()
        if known is not None:
            known = known.expand(texts, count, -1).flatten(0, 1)
            if missing := size - known.shape[-1]:
                known = torch.nn.functional.pad(known, (0, missing))
        ids, q = ids.expand(texts, -1), draft.q.expand(texts, -1).flatten()
        x = ids[:, 1:].flatten()
        return FlatDrafts(texts, in_order(ids), x, parents, q, draft.is_chain, known)


def in_order(nodes: Tensor) -> Tensor:
    """Return values of the nodes of each text, [A, n + 1, …], as ``FlatDrafts`` has them, [A · n +
    A, …]."""
    return nodes[0] if len(nodes) == 1 else torch.cat([nodes[:, :-1].flatten(0, 1), nodes[:, -1]])


@cache
def chain(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Parents [N] and depths [N + 1] of the tree with one path of N drafted tokens. Do not write to
    them."""
    return torch.arange(length, device=device), torch.arange(length + 1, device=device)


def chain_draft(ids: Tensor, q: Tensor, distribution: Tensor | None = None) -> Draft:
    """Return a draft with one path, or one for each text: ids [.., N + 1], q [.., N], distribution
    [.., N, V']."""
    count = ids.shape[-1] - 1
    parents, depths = chain(count, ids.device)
    return Draft(ids, parents, depths, q, count, True, distribution)


def ancestors(parents: Tensor, depth: int) -> Tensor:
    """Return bool [.., N + 1, N + 1] of parents [.., N]: whether the column's node is the row's
    node or its ancestor. ``depth``: upper bound of the depths."""
    nodes = parents.shape[-1] + 1
    sees = torch.eye(nodes, device=parents.device).repeat(*parents.shape[:-1], 1, 1)
    sees[..., 1:, :].scatter_(-1, parents[..., None], 1.0)
    reach = 1
    while reach < depth:  # each product doubles the distance to known ancestors
        sees = (sees @ sees).clamp(max=1)
        reach *= 2
    return sees.bool()


@cache
def certain(count: int, device: torch.device) -> Tensor:
    """q [count] of a drafter without probabilities, at a fixed address. Do not write to it."""
    return torch.ones(count, device=device)
