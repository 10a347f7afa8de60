"""Prompt lookup: what followed the latest earlier occurrence of the last few tokens (Saxena 2023;
transformers' prompt lookup).

Without a model: the probability q of every drafted token is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mars_core.decoder.positions import Start
from mars_core.drafting.base import Inputs
from mars_core.verification import Draft, certain, chain_draft

MAX_NGRAM = 3  # longest n-gram that is looked up; shorter ones follow, down to one token


class NgramDrafter:
    """Keeps an index of the last position after each n-gram, updated in constant time per token.
    ``k`` 0 disables drafts: plain decoding of the target."""

    computes = False

    def __init__(self, k: int) -> None:
        self.longest = k
        self.begin((), None)

    def begin(self, ids: Sequence[int], features: Tensor | None) -> None:
        self._last: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def inputs(self, ids: Sequence[int], limit: int) -> Inputs:
        self._index(ids)
        contexts = (tuple(ids[-size:]) for size in range(min(MAX_NGRAM, len(ids)), 0, -1))
        found = next((at for at in map(self._last.get, contexts) if at is not None), len(ids))
        drafted = list(ids[found : found + min(limit, self.longest)])
        return Inputs(len(drafted), 0, [ids[-1], *drafted])

    def draft(self, size: int, start: Start, numbers: Tensor, noise: Tensor | None) -> Draft:
        return chain_draft(numbers, certain(size, numbers.device))

    def commit(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """Only committed ids are indexed."""

    def _index(self, ids: Sequence[int]) -> None:
        """Indexes for each position in ids the n-grams that end just before it."""
        for at in range(max(1, self._indexed), len(ids)):
            for size in range(1, min(MAX_NGRAM, at) + 1):
                self._last[tuple(ids[at - size : at])] = at
        self._indexed = len(ids)
