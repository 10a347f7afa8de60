"""An EAGLE-3 head as drafter: a dynamic tree, or a chain, grown on the device (EAGLE-2 2406.16858, EAGLE-3 2503.01840).

At every depth the best ``top_k`` nodes by summed log-probability are expanded; of all candidates the best ``tokens`` are drafted.
The head's cache keeps only entries with the target's own features; what it drafted is written behind them and forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from mars_core.decoder import ModelCache
from mars_core.decoder.direct_cache import DirectCache
from mars_core.decoder.spans import fixed
from mars_core.drafting.none import without_draft
from mars_core.eagle3.cache import HeadCache
from mars_core.eagle3.head import Eagle3Head
from mars_core.sampling import lowest_argmax
from mars_core.types import TreeShape
from mars_core.verification import Draft, chain_draft


class Eagle3Drafter:
    """Reads the features of ``target``'s latest pass, which must tap the head's layers. ``shape`` with top_k 1 drafts chains.

    For texts of at most ``tokens``.
    """

    def __init__(self, head: Eagle3Head, target: ModelCache, shape: TreeShape, tokens: int) -> None:
        self._head = head
        self._target = target
        self._shape = shape
        self.branches = min(shape.top_k, head.config.draft_vocabulary) > 1
        self.ahead = (shape.top_k + 1) * (shape.depth + 1)
        self._cache = HeadCache(head, tokens, self.ahead)
        self._pending: Tensor | None = None  # features [n, taps · T] of the entries that are not cached yet
        self._kept: list[int] | None = None  # the same after a fixed draft, as rows of the target's fixed features

    @property
    def longest(self) -> int:
        return self._shape.depth

    def prefill(self, ids: Sequence[int]) -> None:
        """Entry i needs the features of token i and the id of token i + 1; the last one is left to the first proposal."""
        self._cache.length, self._pending, self._kept = 0, None, None
        if len(ids) > 1:
            features = self._features()
            self._pending = features[-1:].clone()
            if len(features) > 1:
                self._cache.extend(torch.tensor(ids[1:-1], device=features.device), self._head.fuse(features[:-1]))

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        depth = min(self._shape.depth, limit)
        if self._kept is not None:
            self._pending, self._kept = self._features()[self._kept], None
        if depth == 0 or self._pending is None:
            return without_draft(ids, self._target.device)
        following = torch.tensor(ids[len(ids) - len(self._pending) :], device=self._target.device)
        output = self._cache.extend(following, self._head.fuse(self._pending))[-1:]
        self._pending = None
        return self._grow(output, following[-1:], depth)

    def commit(self, path: Sequence[int]) -> None:
        """The kept nodes' features are the target's own now."""
        rows = self._features()[list(path)]
        self._pending = rows if self._pending is None else torch.cat([self._pending, rows])

    def numbers(self, ids: Sequence[int]) -> list[int] | None:
        """Entries cached, entries to come, and of these, filled up to the longest path: rows of the features, ids that follow."""
        if not isinstance(self._target, DirectCache) or (self._pending is None and self._kept is None):
            return None
        if self._kept is None:
            assert self._pending is not None
            self._kept = list(range(len(self._pending)))
            self._target.fixed_features[: len(self._pending)] = self._pending
            self._pending = None
        count, room = len(self._kept), self._shape.depth + 1
        filled = [0] * (room - count)
        return [self._cache.length, count, *self._kept, *filled, *ids[len(ids) - count :], *filled]

    def fixed(self, told: Tensor, u: Tensor, width: int) -> Draft:
        base, count, rows, following = told.split((1, 1, *[self._shape.depth + 1] * 2))
        assert isinstance(self._target, DirectCache)
        entries = self._head.fuse(self._target.fixed_features.index_select(0, rows))
        with fixed(self._cache, base[0], width):
            outputs = self._cache.extend(following, entries)
        with fixed(self._cache, (base + count)[0], width):
            last = count - 1
            return self._grow(outputs.index_select(0, last), following.index_select(0, last), self._shape.depth)

    def commit_fixed(self, ids: Sequence[int], path: Sequence[int]) -> None:
        self._cache.length = len(ids) - 1
        self._kept = list(path)

    def _grow(self, output: Tensor, root: Tensor, depth: int) -> Draft:
        """The draft after ``root`` [1], whose entry came out as ``output`` [1, H]; nothing in it returns to the host."""
        top_k = min(self._shape.top_k, self._head.config.draft_vocabulary)
        if top_k == 1:
            return _chain(self._head, self._cache, output, root, depth)
        growth = _Growth(self._head, self._cache, top_k)
        growth.begin(output)
        for _ in range(depth - 1):
            growth.deepen()
        return growth.tree(root, self._shape.tokens, depth)

    def _features(self) -> Tensor:
        assert self._target.features is not None
        return self._target.features


def _chain(head: Eagle3Head, cache: HeadCache, output: Tensor, root: Tensor, depth: int) -> Draft:
    """The likeliest token at every depth."""
    drafted, rows = [root], []
    for ahead in range(depth):
        hidden, logits = cache.predict(output)
        drafted.append(head.target_ids(lowest_argmax(logits)))
        rows.append(logits)
        if ahead < depth - 1:
            output = cache.draft_next(drafted[-1], hidden, ahead)
    law = torch.cat(rows).float().softmax(-1)
    places = head.target_ids(torch.arange(law.shape[-1], device=law.device))
    whole = law.new_zeros(len(law), head.config.target_vocabulary).index_copy_(-1, places, law)
    ids = torch.cat(drafted)
    return chain_draft(ids, whole.gather(-1, ids[1:, None])[:, 0], whole)


class _Growth:
    """One tree as it grows. Candidates are numbered in the order in which they were found, parents before children."""

    def __init__(self, head: Eagle3Head, cache: HeadCache, width: int) -> None:
        self._head, self._cache, self._width = head, cache, width
        # A tensor a depth: of every candidate its draft id, summed log-probability and log-probability [n · width], and the numbers
        # of the nodes [n] that were expanded.
        self._found_ids: list[Tensor] = []
        self._found_scores: list[Tensor] = []
        self._found_chances: list[Tensor] = []
        self._expanded: list[Tensor] = []
        self._found = 0

    def begin(self, output: Tensor) -> None:
        """The first depth: the best continuations of the root, whose entry came out as ``output`` [1, H]."""
        self._scores = torch.zeros(1, dtype=torch.float64, device=output.device)
        self._numbers = torch.full((1,), -1, device=output.device)
        self._sees = torch.ones(1, 0, dtype=torch.bool, device=output.device)
        self._own = torch.eye(self._width, dtype=torch.bool, device=output.device)
        self._grow(output)

    def deepen(self) -> None:
        """Expands the best nodes of the depth found last."""
        self._sees = torch.cat([self._sees, self._own], -1)
        ids = self._head.target_ids(self._ids)
        self._grow(self._cache.draft(ids, self._hidden, len(self._found_ids) - 1, self._sees))

    def _grow(self, output: Tensor) -> None:
        """Notes the best continuations of each expanded node, and takes the best of all as the next to be expanded."""
        hidden, logits = self._cache.predict(output)
        chances, ids = logits.float().log_softmax(-1).topk(self._width)
        scores = (self._scores[:, None] + chances).view(-1)
        self._found_ids.append(ids.view(-1))
        self._found_scores.append(scores)
        self._found_chances.append(chances.view(-1))
        self._expanded.append(self._numbers)
        self._scores, best = scores.topk(self._width)
        source = best // self._width
        self._ids, self._hidden, self._sees = self._found_ids[-1][best], hidden[source], self._sees[source]
        self._numbers = best + self._found
        self._found += len(scores)

    def tree(self, root: Tensor, tokens: int, depth: int) -> Draft:
        """The best ``tokens`` candidates. A parent is never worse than its child and is found before it, so that it is among them."""
        ids, scores, chances = map(torch.cat, (self._found_ids, self._found_scores, self._found_chances))
        chosen = scores.sort(descending=True, stable=True).indices[:tokens].sort().values
        number = torch.zeros_like(ids).index_fill_(0, chosen, 1).cumsum(0)
        parents = torch.cat(self._expanded).repeat_interleave(self._width)[chosen]
        parents = torch.where(parents < 0, 0, number[parents])
        levels = _levels(tuple(map(len, self._found_scores)), ids.device)
        depths = torch.cat([parents.new_zeros(1), levels[chosen]])
        drafted = torch.cat([root, self._head.target_ids(ids[chosen])])
        return Draft(drafted, parents, depths, chances[chosen].exp(), depth, is_chain=False)


@cache
def _levels(counts: tuple[int, ...], device: torch.device) -> Tensor:
    """The depth of each candidate, from 1 on; ``counts``: candidates a depth. Not to be written to."""
    return torch.arange(1, len(counts) + 1, device=device).repeat_interleave(torch.tensor(counts, device=device))
