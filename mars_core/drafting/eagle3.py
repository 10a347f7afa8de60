"""An EAGLE-3 head as drafter: a dynamic tree, or a chain, grown on the device (EAGLE-2 2406.16858, EAGLE-3 2503.01840).

At every depth the best ``top_k`` nodes by summed log-probability are expanded; of all candidates the best ``tokens`` are drafted.
The head's cache keeps only entries with the target's own features; what it drafted is written behind them and forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mars_core.drafting.none import without_draft
from mars_core.eagle3.head import Eagle3Head
from mars_core.model_cache import ModelCache
from mars_core.types import TreeShape
from mars_core.verification import Draft, chain_draft


class Eagle3Drafter:
    """Reads the features of ``target``'s latest pass, which must tap the head's layers. ``shape`` with top_k 1 drafts chains."""

    def __init__(self, head: Eagle3Head, target: ModelCache, shape: TreeShape) -> None:
        self._head = head
        self._target = target
        self._shape = shape
        self._cache = HeadCache(head)
        # Fused features of the entries that are not cached yet.
        self._pending = head.fc.weight.new_zeros(0, head.config.layer.hidden_size)

    @property
    def longest(self) -> int:
        return self._shape.depth

    def prefill(self, ids: Sequence[int]) -> None:
        """Entry i needs the features of token i and the id of token i + 1; the last one is left to the first proposal."""
        if len(ids) > 1:
            self._take(slice(None))
            ready, self._pending = self._pending[:-1], self._pending[-1:]
            if len(ready):
                self._cache.extend(torch.tensor(ids[1:-1], device=ready.device), ready)

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        depth = min(self._shape.depth, limit)
        if depth == 0 or len(self._pending) == 0:
            return without_draft(ids, self._target.device)
        following = torch.tensor(ids[len(ids) - len(self._pending) :], device=self._target.device)
        hidden, logits = self._cache.extend(following, self._pending)
        self._pending = self._pending[:0]
        growth = _Growth(self._head, self._cache, min(self._shape.top_k, logits.shape[-1]))
        growth.begin(hidden[-1:], logits[-1:])
        for _ in range(depth - 1):
            growth.deepen()
        root = torch.tensor(ids[-1:], device=self._target.device)
        return growth.chain(root) if growth.width == 1 else growth.tree(root, self._shape.tokens, depth)

    def commit(self, path: Sequence[int]) -> None:
        """The kept nodes' features are the target's own now."""
        self._take(list(path))

    def _take(self, nodes: slice | list[int]) -> None:
        features = self._target.features
        assert features is not None
        self._pending = torch.cat([self._pending, self._head.fuse(features[nodes])])


class HeadCache:
    """Keys and values of one head's entries. The first ``length`` are stable; drafted ones stand behind them until the next ``extend``."""

    def __init__(self, head: Eagle3Head) -> None:
        self._head = head
        self.length = 0
        self._stored = head.fc.weight.new_zeros(2, 1, head.layer.kv_heads, 0, head.layer.head_dim)

    def extend(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Stable entries ids [n], hidden [n, H] after what is there → outputs [n, H] and draft logits [n, D]."""
        n = len(ids)
        sees = torch.ones(n, self.length + n, dtype=torch.bool, device=ids.device).tril(self.length)
        output = self._attend(ids, hidden, torch.arange(self.length, self.length + n, device=ids.device), 0, sees)
        self.length += n
        return output

    def draft(self, ids: Tensor, hidden: Tensor, depth: int, ahead: int, sees: Tensor) -> tuple[Tensor, Tensor]:
        """Drafted entries at ``depth`` (0 is the first) after ``ahead`` others; ``sees`` [n, ahead + n] among drafted ones."""
        positions = torch.full((len(ids),), self.length + depth, device=ids.device)
        stable = torch.ones(len(ids), self.length, dtype=torch.bool, device=ids.device)
        return self._attend(ids, hidden, positions, ahead, torch.cat([stable, sees], -1))

    def _attend(
        self, ids: Tensor, hidden: Tensor, positions: Tensor, ahead: int, sees: Tensor
    ) -> tuple[Tensor, Tensor]:
        residual, q, k, v = self._head.read(ids[None], hidden[None], positions[None])
        start, end = self.length + ahead, self.length + ahead + len(ids)
        if end > self._stored.shape[-2]:
            room = self._stored.new_zeros(*self._stored.shape[:-2], max(256, end), self._stored.shape[-1])
            self._stored = torch.cat([self._stored, room], -2)
        self._stored[0, :, :, start:end] = k
        self._stored[1, :, :, start:end] = v
        keys, values = self._stored[..., :end, :]
        attended = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=sees, enable_gqa=True)
        output, logits = self._head.finish(residual, attended)
        return output[0], logits[0]


class _Growth:
    """One draft as it grows. Candidates are numbered in the order in which they were found, parents before children."""

    def __init__(self, head: Eagle3Head, cache: HeadCache, width: int) -> None:
        self._head, self._cache, self.width = head, cache, width
        self._rows: list[
            Tensor
        ] = []  # a depth each: draft ids, summed log-probability, log-probability, number of the parent
        self._laws: list[Tensor] = []
        self._found = 0
        self._ahead = 0  # drafted entries in the head's cache

    def begin(self, hidden: Tensor, logits: Tensor) -> None:
        """The first depth: the best continuations of the root, whose entry gave hidden [1, H] and logits [1, D]."""
        self._scores = torch.zeros(1, dtype=torch.float64, device=logits.device)
        self._numbers = torch.full((1,), -1, device=logits.device)
        self._sees = torch.ones(1, 0, dtype=torch.bool, device=logits.device)
        self._grow(hidden, logits)

    def deepen(self) -> None:
        """Expands the best nodes of the depth found last."""
        eye = torch.eye(len(self._ids), dtype=torch.bool, device=self._ids.device)
        sees = torch.cat([self._sees, eye], -1)
        ids = self._head.target_ids(self._ids)
        hidden, logits = self._cache.draft(ids, self._hidden, len(self._rows) - 1, self._ahead, sees)
        self._sees = sees
        self._ahead += len(ids)
        self._grow(hidden, logits)

    def _grow(self, hidden: Tensor, logits: Tensor) -> None:
        """Notes the best continuations of each expanded node, and takes the best of all as the next to be expanded."""
        law = logits.float().log_softmax(-1)
        self._laws.append(law)
        chances, ids = law.topk(self.width)
        scores = (self._scores[:, None] + chances.double()).flatten()
        parents = self._numbers.repeat_interleave(self.width)
        self._rows.append(torch.stack([ids.flatten().double(), scores, chances.flatten().double(), parents.double()]))
        best = scores.topk(self.width).indices
        source = best // self.width
        self._ids, self._scores, self._hidden = ids.flatten()[best], scores[best], hidden[source]
        self._sees = self._sees[source]
        self._numbers = self._found + best
        self._found += len(scores)

    def chain(self, root: Tensor) -> Draft:
        """All of it, where one node a depth was expanded and found."""
        ids, _, chances, _ = torch.cat(self._rows, -1)
        law = torch.cat(self._laws).exp()
        drafted = self._head.target_ids(ids.long())
        whole = law.new_zeros(len(law), self._head.config.target_vocabulary)
        places = self._head.target_ids(torch.arange(law.shape[-1], device=law.device))
        return chain_draft(torch.cat([root, drafted]), chances.exp(), whole.index_copy_(-1, places, law))

    def tree(self, root: Tensor, tokens: int, depth: int) -> Draft:
        """The best ``tokens`` candidates. A parent is never worse than its child and is found before it, so that it is among them."""
        rows = torch.cat(self._rows, -1)
        order = rows[1].sort(descending=True, stable=True).indices[:tokens]
        chosen = order.sort().values
        number = rows.new_zeros(rows.shape[-1], dtype=torch.long).index_fill_(0, chosen, 1).cumsum(0)
        ids, _, chances, parents = rows[:, chosen]
        parents = torch.where(parents < 0, 0, number[parents.long()])
        levels = [
            torch.full((row.shape[-1],), level, device=rows.device) for level, row in enumerate(self._rows, start=1)
        ]
        depths = torch.cat([parents.new_zeros(1), torch.cat(levels)[chosen]])
        drafted = self._head.target_ids(ids.long())
        return Draft(torch.cat([root, drafted]), parents, depths, chances.exp(), depth, is_chain=False)
