"""An EAGLE-3 head as drafter: a dynamic tree, or a chain, grown on the device (EAGLE-2 2406.16858,
EAGLE-3 2503.01840).

At every depth the best ``top_k`` nodes by summed log-probability are expanded; of all candidates
the best ``tokens`` are drafted. With noise E tokens are compared by q/E instead of q. The head's
cache keeps only entries with the target's features; drafted entries are written after them and
overwritten later.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.decoder import CacheSize
from mars_core.decoder.positions import Start
from mars_core.drafting.base import Drafter, Inputs, Parts
from mars_core.eagle3.cache import HeadCache
from mars_core.eagle3.head import Eagle3Head
from mars_core.sampling import lowest_argmax, target_distribution
from mars_core.types import Sampling, TreeShape
from mars_core.verification import Draft, chain_draft


class Eagle3Drafter(Drafter):
    """Reads ``features`` [rows, layers · T], the target's features of its latest pass. A chain is a
    tree with top_k 1. ``full_width``, with CUDA graphs: every draft of full depth uses the same
    operations, whatever was accepted before."""

    computes = True

    def __init__(self, parts: Parts) -> None:
        head, k, full_width = parts.pair.head, parts.config.k, parts.pair.graphs
        assert head is not None, "validated"
        shape = parts.config.tree or TreeShape(k, k, 1)
        self._head, self._features, self._shape = head, parts.target.features, shape
        self._sampling, self._full_width, self.longest = parts.sampling, full_width, shape.depth
        self._cache = HeadCache(
            head,
            CacheSize(parts.tokens, (shape.top_k + 1) * (shape.depth + 1), full_width=full_width),
        )
        self._length = 0  # entries that are cached
        self._uncached: Sequence[int] = ()  # rows of the features whose entries are not cached yet

    def begin(self, ids: Sequence[int], features: Tensor) -> None:
        """Entry i needs the features of token i and the id of token i + 1; the last one is cached
        by the first draft."""
        self._length, self._uncached = max(0, len(ids) - 2), ()
        if len(ids) > 1:
            self._features[:1] = features[-1:]
            self._uncached = (0,)
        if len(ids) > 2:
            self._cache.read(
                torch.tensor(ids[1:-1], device=features.device), self._head.fuse(features[:-1])
            )

    def inputs(self, ids: Sequence[int], limit: int) -> Inputs:
        """The number of entries to cache, and for each its row of the features and the id that
        follows; if ``full_width``, padded to the maximum. After a prompt of one token there is no
        entry, and no draft."""
        count = len(self._uncached)
        filled = [0] * (self._shape.depth + 1 - count if self._full_width else 0)
        numbers = [count, *self._uncached, *filled, *ids[len(ids) - count :], *filled]
        return Inputs(min(limit, self.longest) if count else 0, self._length, numbers)

    def draft(self, size: int, start: Start, numbers: Tensor, noise: Tensor | None) -> Draft:
        capacity = len(numbers) // 2
        count, rows, following = numbers.split((1, capacity, capacity))
        outputs = self._cache.extend(
            following, self._head.fuse(self._features.index_select(0, rows)), start
        )
        if self._full_width:
            last, start = count - 1, (start + count)[0]
            outputs, following = outputs.index_select(0, last), following.index_select(0, last)
        else:
            start = start + capacity
        return self._grow(outputs[-1:], following[-1:], start, size, noise)

    def commit(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """The accepted nodes now have features computed by the target."""
        self._length, self._uncached = len(ids) - 1, path

    def _grow(
        self, output: Tensor, root: Tensor, start: Start, depth: int, noise: Tensor | None
    ) -> Draft:
        """The draft after ``root`` [1], whose entry has the output ``output`` [1, H]; drafted
        entries are stored from ``start`` on."""
        top_k = min(self._shape.top_k, self._head.config.draft_vocabulary)
        target_ids = self._head.target_ids(
            torch.arange(self._head.config.draft_vocabulary, device=root.device)
        )
        odds = _Odds(self._sampling, None if noise is None else noise.index_select(-1, target_ids))
        if top_k == 1:
            return _chain(self._head, self._cache, output, root, start, depth, odds, target_ids)
        growth = _Growth(self._head, self._cache, start, top_k, odds)
        growth.begin(output)
        for _ in range(depth - 1):
            growth.expand_level()
        return growth.tree(root, self._shape.tokens, depth)


class _Odds(NamedTuple):
    """The head's distribution in draft ids, with noise [≥ depth, V'] or without."""

    sampling: Sampling
    noise: Tensor | None

    def distribution(self, logits: Tensor) -> Tensor:
        """q [n, V']; without noise softmax(z)."""
        return (
            logits.float().softmax(-1)
            if self.noise is None
            else target_distribution(logits.float(), self.sampling)
        )

    def scores(self, logits: Tensor, depth: int) -> Tensor:
        """The logarithms [n, V'] by which tokens of a tree are compared."""
        if self.noise is None:
            return logits.float().log_softmax(-1)
        race = self.distribution(logits) / self.noise[depth]
        return (race / race.sum(-1, keepdim=True)).log()


def _chain(
    head: Eagle3Head,
    cache: HeadCache,
    output: Tensor,
    root: Tensor,
    start: Start,
    depth: int,
    odds: _Odds,
    target_ids: Tensor,
) -> Draft:
    """The best token at every depth. ``places`` [V']: the target's ids of the draft ids."""
    drafted, rows = [root], []
    for ahead in range(depth):
        hidden, logits = cache.predict(output)
        best = logits if odds.noise is None else odds.scores(logits, ahead)
        drafted.append(head.target_ids(lowest_argmax(best)))
        rows.append(logits)
        if ahead < depth - 1:
            output = cache.extend(drafted[-1], hidden, start + ahead)
    q = odds.distribution(torch.cat(rows))
    distribution = q.new_zeros(len(q), head.config.target_vocabulary).index_copy_(-1, target_ids, q)
    ids = torch.cat(drafted)
    return chain_draft(ids, distribution.gather(-1, ids[1:, None])[:, 0], distribution)


class _Level(NamedTuple):
    """One depth of a tree under construction: of every candidate [n · width] the draft id, the
    summed score, probability and odds (without noise the same); and the numbers of the nodes [n]
    that were expanded."""

    ids: Tensor
    scores: Tensor
    q: Tensor
    odds: Tensor
    expanded: Tensor


class _Growth:
    """A tree under construction. Candidates are numbered in the order in which they are added,
    parents before children."""

    def __init__(
        self, head: Eagle3Head, cache: HeadCache, start: Start, width: int, odds: _Odds
    ) -> None:
        self._head, self._cache, self._start = head, cache, start
        self._width, self._odds = width, odds
        self._added: list[_Level] = []
        self._count = 0

    def begin(self, output: Tensor) -> None:
        """The first depth: the best continuations of the root, whose entry has the output
        ``output`` [1, H]."""
        self._scores = torch.zeros(1, dtype=torch.float64, device=output.device)
        self._numbers = torch.full((1,), -1, device=output.device)
        self._sees = torch.ones(1, 0, dtype=torch.bool, device=output.device)
        self._identity = torch.eye(self._width, dtype=torch.bool, device=output.device)
        self._grow(output)

    def expand_level(self) -> None:
        """Expands the best nodes of the last depth."""
        self._sees = torch.cat([self._sees, self._identity], -1)
        ids, depth = self._head.target_ids(self._ids), len(self._added) - 1
        self._grow(self._cache.draft(ids, self._hidden, self._start, depth, self._sees))

    def _grow(self, output: Tensor) -> None:
        """Adds the best continuations of each expanded node as candidates, and selects the best of
        all to expand next."""
        hidden, logits = self._cache.predict(output)
        best_scores, ids = self._odds.scores(logits, len(self._added)).topk(self._width)
        scores = (self._scores[:, None] + best_scores).view(-1)
        q = odds = best_scores.exp()
        if self._odds.noise is not None:
            q = self._odds.distribution(logits).gather(-1, ids)
        self._added.append(_Level(ids.view(-1), scores, q.view(-1), odds.view(-1), self._numbers))
        self._scores, selected = scores.topk(self._width)
        source = selected // self._width
        self._ids, self._hidden = ids.view(-1)[selected], hidden[source]
        self._sees = self._sees[source]
        self._numbers = selected + self._count
        self._count += len(scores)

    def tree(self, root: Tensor, tokens: int, depth: int) -> Draft:
        """The best ``tokens`` candidates. A parent scores at least as high as its child and is
        added before it, so it is included."""
        added = _Level(*map(torch.cat, zip(*self._added, strict=True)))
        chosen = added.scores.sort(descending=True, stable=True).indices[:tokens].sort().values
        number = torch.zeros_like(added.ids).index_fill_(0, chosen, 1).cumsum(0)
        parents = added.expanded.repeat_interleave(self._width)[chosen]
        parents = torch.where(parents < 0, 0, number[parents])
        levels = _levels(tuple(len(each.scores) for each in self._added), root.device)
        depths = torch.cat([parents.new_zeros(1), levels[chosen]])
        drafted = torch.cat([root, self._head.target_ids(added.ids[chosen])])
        odds = None if self._odds.noise is None else added.odds[chosen]
        return Draft(drafted, parents, depths, added.q[chosen], depth, is_chain=False, odds=odds)


@cache
def _levels(counts: tuple[int, ...], device: torch.device) -> Tensor:
    """The depth of each candidate, from 1 on; ``counts``: candidates a depth. Not to be written
    to."""
    return torch.arange(1, len(counts) + 1, device=device).repeat_interleave(
        torch.tensor(counts, device=device)
    )
