"""A small language model as drafter: K forward passes without a transfer to the host.

Greedy drafts take its most likely token; others are drawn from its distribution q. Both are
processed as the target's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mars_core.decoder import CacheSize, input_embedding, open_cache
from mars_core.decoder.positions import Start
from mars_core.drafting.base import Drafter, Inputs, Parts
from mars_core.sampling import displayed_distribution, draw, lowest_argmax, target_distribution
from mars_core.verification import Draft, chain_draft


class ModelDrafter(Drafter):
    """Only ids below the pair's ``vocabulary``, which target and draft model share, are proposed.
    ``full_width``, with CUDA graphs: every draft of K tokens uses the same operations, whatever was
    read before."""

    computes = True

    def __init__(self, parts: Parts) -> None:
        pair, self.longest = parts.pair, parts.config.k
        assert pair.draft is not None, "validated"
        self._cache = open_cache(
            pair.draft, CacheSize(parts.tokens, self.longest, full_width=pair.graphs)
        )
        self._rows = input_embedding(pair.draft).num_embeddings
        self._vocabulary, self._full_width = pair.vocabulary, pair.graphs
        self._sampling, self._processor = parts.sampling, parts.processor
        self._length = 0  # ids that are cached

    def begin(self, ids: Sequence[int], features: Tensor) -> None:
        self._length = len(ids) - 1
        if self._length:
            self._cache.read(torch.tensor(self._known(ids[:-1]), device=self._cache.device))

    def inputs(self, ids: Sequence[int], limit: int) -> Inputs:
        """The root, and the ids to be read, which end with it: one or two, or always two if
        ``full_width``."""
        start = max(0, len(ids) - 2) if self._full_width else self._length
        return Inputs(min(limit, self.longest), start, [ids[-1], *self._known(ids[start:])])

    def draft(self, size: int, start: Start, numbers: Tensor, noise: Tensor | None) -> Draft:
        fed, drafted, rows, root = numbers[1:], [numbers[:1]], [], start + len(numbers) - 2
        for depth in range(size):
            logits = self._cache.forward(fed, start, logits=1)[:, : self._vocabulary]
            start = start + len(fed)
            if self._processor:
                logits = self._processor.apply(logits, self._processor.row(root, *drafted[1:]))
            q = self._distribution(logits) if noise is not None else logits
            fed = lowest_argmax(q) if noise is None else draw(q, noise[depth : depth + 1]).ids
            drafted.append(fed)
            rows.append(q)
        nodes, distribution = torch.cat(drafted), torch.cat(rows)
        if noise is None:
            distribution = self._distribution(distribution)
        return chain_draft(nodes, distribution.gather(-1, nodes[1:, None])[:, 0], distribution)

    def commit(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """The last drafted token was never read, so a fully accepted draft leaves one id to
        read."""
        self._length = len(ids) + min(len(path), self.longest) - 1

    def _known(self, ids: Sequence[int]) -> list[int]:
        """The ids as the draft model can read them: ids beyond its embedding become its last id."""
        return [min(token, self._rows - 1) for token in ids]

    def _distribution(self, logits: Tensor) -> Tensor:
        """q [N, V], from which drafts are drawn; softmax(z) at temperature 0, where all drafts are
        greedy."""
        return displayed_distribution(
            logits, target_distribution(logits, self._sampling), self._sampling
        )
