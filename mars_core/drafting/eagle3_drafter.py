"""An EAGLE-3 head as drafter: a dynamic tree, or a chain, grown on the device (EAGLE-2 2406.16858,
EAGLE-3 2503.01840).

At every depth the best ``top_k`` nodes by summed log-probability are expanded; of all candidates
the best ``tokens`` are drafted. With noise E tokens are compared by q/E instead of q. The head's
cache keeps only entries with the target's features; drafted entries are written after them and
overwritten later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.decoder.positions import Rows
from mars_core.drafting.base import Drafter, DraftInputs, Inputs, Parts, TextGroup
from mars_core.eagle3.cache import HeadCache
from mars_core.sampling import joined, lowest_argmax, picked, row_sums, target_distribution
from mars_core.types import TreeShape
from mars_core.verification import Draft, chain_draft


class Eagle3Drafter(Drafter):
    """Reads ``features`` [slots, rows, layers · T], the target's features of its latest pass. A
    chain is a tree with top_k 1. With CUDA graphs every draft of full depth uses the same
    operations, whatever was accepted before."""

    computes = True

    def __init__(self, parts: Parts) -> None:
        head, k, size = parts.pair.head, parts.config.k, parts.target.size
        assert head is not None, "validated"
        self._shape = parts.config.tree or TreeShape(k, k, 1)
        super().__init__(self._shape.depth)
        self.width = 2 * (self.longest + 2)
        self._head, self._target = head, parts.target
        # of the features; what follows is read by others
        self._width = len(head.config.feature_layers) * head.config.target_hidden_size
        self._top_k = min(self._shape.top_k, head.config.draft_vocabulary)
        spare = (self._shape.top_k + 1) * (self._shape.depth + 1)
        shapes = size.shapes._replace(row_step=1)
        self._cache = HeadCache(head, size._replace(spare=spare, shapes=shapes))
        self._length = [0] * size.slots  # entries that are cached
        # rows of the features whose entries are not cached yet
        self._uncached: list[Sequence[int]] = [()] * size.slots

    def begin(self, slot: int, ids: Sequence[int], features: Tensor, _prefix: int = 0, /) -> None:
        """Entry i needs the features of token i and the id of token i + 1; the last one is cached
        by the first draft."""
        self._length[slot], self._uncached[slot] = max(0, len(ids) - 2), ()
        if len(ids) > 1:
            self._target.features[slot, :1] = features[-1:]
            self._uncached[slot] = (0,)
        if len(ids) > 2:
            following = torch.tensor(ids[1:-1], device=features.device)
            fused = self._head.fuse(features[:-1, : self._width])
            self._cache.read(following, fused, slot)

    def inputs(self, slot: int, ids: Sequence[int], limit: int) -> Inputs:
        """Return the root, the number of entries to cache, and for each its row of the features and
        the id that follows. After a prompt of one token there is no entry, and no draft."""
        rows, base = self._uncached[slot], slot * self._target.size.spare
        entries = zip((base + row for row in rows), ids[len(ids) - len(rows) :], strict=True)
        numbers = [ids[-1], len(rows), *chain.from_iterable(entries)]
        return Inputs(limit if rows else 0, self._length[slot], numbers)

    def nodes(self, size: int) -> int:
        if self._top_k == 1 or size == 0:
            return size
        return min(self._shape.tokens, self._top_k * (1 + (size - 1) * self._top_k))

    def draft(self, inputs: DraftInputs, groups: Sequence[TextGroup], /) -> Draft:
        size, roots, starts, limits, numbers = inputs
        root, count = numbers[:, :1], numbers[:, 1:2]
        rows, following = numbers[:, 2:].unflatten(1, (-1, 2)).unbind(-1)
        features = self._target.features.flatten(0, 1)[rows][..., : self._width]
        outputs = self._cache.extend(following, self._head.fuse(features), starts)
        last = (count - 1).clamp(min=0)[..., None].expand(-1, -1, outputs.shape[-1])
        draft_ids = torch.arange(self._head.config.draft_vocabulary, device=root.device)
        odds = _Odds(groups, self._head.target_ids(draft_ids))
        output = outputs.gather(1, last)  # [A, 1, H]
        if self._top_k == 1:
            return self._chains(output, root, roots, size, odds)
        levels = self._grown(output, roots, size, odds)
        return self._trees(levels, root, self.nodes(size), limits, odds)

    def commit(self, slot: int, ids: Sequence[int], path: Sequence[int]) -> None:
        """Note that the accepted nodes now have features computed by the target."""
        self._length[slot], self._uncached[slot] = len(ids) - 1, path

    def _chains(self, output: Tensor, root: Tensor, roots: Rows, depth: int, odds: _Odds) -> Draft:
        """Draft the best token at every depth. output [A, 1, H], root [A, 1]."""
        head, drafted, levels = self._head, [root], []
        for ahead in range(depth):
            hidden, logits = self._cache.predict(output)
            best = odds.scores(logits, ahead) if odds.noisy else logits
            drafted.append(head.target_ids(lowest_argmax(best)))
            levels.append(logits)
            if ahead < depth - 1:
                output = self._cache.extend(drafted[-1], hidden, roots.later(ahead))
        ids, q = torch.cat(drafted, 1), odds.distribution(torch.cat(levels, 1))
        distribution = q.new_zeros(*q.shape[:2], head.config.target_vocabulary)
        distribution.index_copy_(-1, odds.target_ids, q)
        return chain_draft(ids, distribution.gather(-1, ids[:, 1:, None])[..., 0], distribution)

    def _grown(self, output: Tensor, roots: Rows, depth: int, odds: _Odds) -> list[_Level]:
        """Return the candidates of each depth: the best continuations of each root, whose entry has
        the output ``output`` [A, 1, H], then of the best nodes of the depth before. They are
        numbered in this order, parents before children."""
        texts, width, device = len(output), self._top_k, output.device
        scores = torch.zeros(texts, 1, dtype=torch.float64, device=device)
        numbers = torch.full((texts, 1), -1, device=device)
        sees = torch.ones(texts, 1, 0, dtype=torch.bool, device=device)
        itself = torch.eye(width, dtype=torch.bool, device=device).expand(texts, -1, -1)
        levels, count = list[_Level](), 0
        for at in range(depth):
            hidden, logits = self._cache.predict(output)
            best, ids = odds.scores(logits, at).topk(width)
            added, chances = (scores[..., None] + best).flatten(1), best.exp()
            q = odds.q(logits, ids, chances)
            levels.append(_Level(ids.flatten(1), added, q.flatten(1), chances.flatten(1), numbers))
            if at == depth - 1:
                break
            scores, selected = added.topk(width)
            source = (selected // width)[..., None]
            fed = self._head.target_ids(ids.flatten(1).gather(1, selected))
            hidden = hidden.gather(1, source.expand(-1, -1, hidden.shape[-1]))
            sees = torch.cat([sees.gather(1, source.expand(-1, -1, sees.shape[-1])), itself], -1)
            output = self._cache.draft(fed, hidden, roots, at, sees)
            numbers, count = selected + count, count + added.shape[1]
        return levels

    def _trees(
        self, levels: Sequence[_Level], root: Tensor, tokens: int, limits: Tensor, odds: _Odds
    ) -> Draft:
        """Draft the best ``tokens`` candidates that are at most ``limits`` [A] deep, then others. A
        parent scores at least as high as its child and is added before it, so it is included."""
        added = _Level(*(torch.cat(parts, 1) for parts in zip(*levels, strict=True)))
        depth_of = _depths(tuple(each.scores.shape[1] for each in levels), root.device)
        scores = added.scores.masked_fill(depth_of > limits[:, None], -torch.inf)
        chosen = scores.sort(descending=True, stable=True).indices[:, :tokens].sort().values
        number = torch.zeros_like(added.ids).scatter(1, chosen, 1).cumsum(1)
        parents = added.expanded.repeat_interleave(self._top_k, 1).gather(1, chosen)
        parents = torch.where(parents < 0, 0, number.gather(1, parents.clamp(min=0)))
        depths = torch.cat([torch.zeros_like(root), depth_of[chosen]], 1)
        drafted = torch.cat([root, self._head.target_ids(added.ids.gather(1, chosen))], 1)
        return Draft(
            drafted,
            parents,
            depths,
            added.q.gather(1, chosen),
            len(levels),
            is_chain=False,
            odds=added.odds.gather(1, chosen) if odds.noisy else None,
        )


class _Level(NamedTuple):
    """One depth of the trees under construction: of every candidate [A, n · width] the draft id,
    the summed score, probability and odds (without noise the same); and the numbers of the nodes
    [A, n] that were expanded."""

    ids: Tensor
    scores: Tensor
    q: Tensor
    odds: Tensor
    expanded: Tensor


class _Odds:
    """The head's distribution in draft ids, of texts with noise or without. ``target_ids`` [V']: of
    the draft ids."""

    def __init__(self, groups: Sequence[TextGroup], target_ids: Tensor) -> None:
        self.target_ids, self._groups = target_ids, list[TextGroup]()
        for each in groups:
            noise = None if each.noise is None else each.noise.index_select(-1, target_ids)
            self._groups.append(each._replace(chance=replace(each.chance, draft=noise)))
        self.noisy = any(each.noise is not None for each in groups)

    def _of(self, compute: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """Return [A, n, …], computed from such values for the texts in equal conditions together."""
        order = [each.rows for each in self._groups]
        parts = [
            compute(each, *(picked(value, rows) for value in values))
            for each, rows in zip(self._groups, order, strict=True)
        ]
        return joined(parts, order)

    def distribution(self, logits: Tensor) -> Tensor:
        """q [A, n, V']; without noise softmax(z)."""
        return self._of(_distribution, logits)

    def q(self, logits: Tensor, ids: Tensor, odds: Tensor) -> Tensor:
        """Return q of drafted tokens ids [A, n, k], whose ``odds`` it is without noise."""

        def drawn(texts: TextGroup, z: Tensor, x: Tensor, known: Tensor) -> Tensor:
            return known if texts.noise is None else _distribution(texts, z).gather(-1, x)

        return self._of(drawn, logits, ids, odds)

    def scores(self, logits: Tensor, depth: int) -> Tensor:
        """Return the logarithms [A, n, V'] by which tokens of a tree are compared."""

        def compared(texts: TextGroup, z: Tensor) -> Tensor:
            if texts.noise is None:
                return z.float().log_softmax(-1)
            race = _distribution(texts, z) / texts.noise[:, depth, None]
            return (race / row_sums(race.flatten(0, 1)).view(*race.shape[:2], 1)).log()

        return self._of(compared, logits)


def _distribution(texts: TextGroup, logits: Tensor) -> Tensor:
    """q [a, n, V'] of some texts."""
    logits = logits.float()
    if texts.noise is None:
        return logits.softmax(-1)
    return target_distribution(logits.flatten(0, 1), texts.sampling).view_as(logits)


@cache
def _depths(counts: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the depth of each candidate, from 1 on; ``counts``: candidates a depth. Do not write
    to it."""
    return torch.arange(1, len(counts) + 1, device=device).repeat_interleave(
        torch.tensor(counts, device=device)
    )
