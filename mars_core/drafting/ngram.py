"""Prompt lookup: what followed the latest earlier occurrence of the last few tokens (Saxena 2023; transformers' prompt lookup).

No model; the probability q of every drafted token is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mars_core.drafting.none import without_draft
from mars_core.verification import Draft, chain_draft

LONGEST = 3  # tokens of context that are looked up first, then one fewer, down to one


class NgramDrafter:
    """Keeps an index of where each n-gram was last followed by something: constant time a token."""

    branches = False
    ahead = 0

    def __init__(self, k: int, device: torch.device) -> None:
        self._k = k
        self._device = device
        self.prefill(())

    @property
    def longest(self) -> int:
        return self._k

    def prefill(self, ids: Sequence[int]) -> None:
        self._last: dict[tuple[int, ...], int] = {}
        self._indexed = 0
        self._index(ids)

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        drafted = self._found(ids, min(self._k, limit))
        if not drafted:
            return without_draft(ids, self._device)
        return self._draft(torch.tensor([ids[-1], *drafted], device=self._device))

    def commit(self, path: Sequence[int]) -> None:
        """Only committed ids are indexed."""

    def numbers(self, ids: Sequence[int]) -> list[int] | None:
        drafted = self._found(ids, self._k)
        return [ids[-1], *drafted] if len(drafted) == self._k else None

    def fixed(self, told: Tensor, u: Tensor, width: int) -> Draft:
        return self._draft(told)

    def commit_fixed(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """Only committed ids are indexed."""

    def _found(self, ids: Sequence[int], count: int) -> list[int]:
        self._index(ids)
        found = next((at for at in map(self._last.get, self._contexts(ids)) if at is not None), None)
        return [] if found is None else list(ids[found : found + count])

    def _draft(self, nodes: Tensor) -> Draft:
        return chain_draft(nodes, torch.ones(len(nodes) - 1, device=nodes.device))

    def _contexts(self, ids: Sequence[int]) -> list[tuple[int, ...]]:
        return [tuple(ids[-size:]) for size in range(min(LONGEST, len(ids)), 0, -1)]

    def _index(self, ids: Sequence[int]) -> None:
        """Notes for each place in ids the n-grams that end just before it."""
        for at in range(max(1, self._indexed), len(ids)):
            for size in range(1, min(LONGEST, at) + 1):
                self._last[tuple(ids[at - size : at])] = at
        self._indexed = len(ids)
