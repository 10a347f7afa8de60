"""A small language model as drafter: K forward passes without a transfer to the host.

Greedy drafts take its most likely token; others are drawn from its distribution q. Both are
processed as the target's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mars_core.decoder import (
    ANY_SHAPE,
    input_embedding,
    is_fast,
    open_cache,
)
from mars_core.decoder.cache import CHUNK
from mars_core.decoder.positions import Rows
from mars_core.drafting.base import Drafter, DraftInputs, Inputs, Parts, TextGroup
from mars_core.sampling import (
    displayed_distribution,
    draw,
    joined,
    lowest_argmax,
    picked,
    target_distribution,
)
from mars_core.verification import Draft, chain_draft


class ModelDrafter(Drafter):
    """Only ids below the pair's ``vocabulary``, which target and draft model share, are proposed.
    Every draft begins by reading the last two tokens: what an earlier draft read at the first of
    them was not the text, where all of it was accepted."""

    computes = True

    def __init__(self, parts: Parts) -> None:
        pair, size = parts.pair, parts.target.size
        super().__init__(parts.config.k)
        self.width = 3
        assert pair.draft is not None, "validated"
        shapes = size.shapes if is_fast(pair.draft) else ANY_SHAPE
        rows = 1 if shapes.fixed else shapes.row_step  # fixed: every pass has all texts
        shapes = shapes._replace(row_step=rows, most_rows=CHUNK)
        size = size._replace(spare=self.longest, shapes=shapes)
        self._cache = open_cache(pair.draft, size)
        self._rows = input_embedding(pair.draft).num_embeddings
        self._vocabulary = pair.vocabulary

    def begin(self, slot: int, ids: Sequence[int], features: Tensor, prefix: int = 0, /) -> None:
        """Read the text; what the original run read in drafts, from the last token but one of its
        prompt on, in passes of as few rows."""
        if len(ids) > 1:
            read = torch.tensor(self._known(ids[:-1]), device=self._cache.device)
            begun = len(read) - prefix
            self._cache.read(read[:begun], slot=slot)
            if prefix:
                drafted = max(0, begun - 1)
                self._cache.read(read[drafted:], drafted, slot, in_steps=True)

    def inputs(self, slot: int, ids: Sequence[int], limit: int) -> Inputs:
        """Return the root, and the two ids to be read, which end with it; a text of one token is
        read twice at its position."""
        root = ids[-1]
        return Inputs(limit, len(ids) - 2, [root, *self._known([*(ids[-2:-1] or ids), root])])

    def draft(self, inputs: DraftInputs, groups: Sequence[TextGroup], /) -> Draft:
        size, roots, rows, _, numbers = inputs
        order = [each.rows for each in groups]
        fed, ids, levels = numbers[:, 1:], numbers[:, :1], list[Tensor]()
        for _ in range(size):
            logits = self._cache.chains(fed, rows, logits=1)[:, 0, : self._vocabulary]
            rows = rows.later(fed.shape[1])
            drawn = [_drawn(each, picked(logits, each.rows), roots, ids) for each in groups]
            fed = joined([chosen for _, chosen in drawn], order)[:, None]
            levels.append(joined([q for q, _ in drawn], order))
            ids = torch.cat([ids, fed], 1)
        distribution = torch.stack(levels, 1)
        return chain_draft(ids, distribution.gather(-1, ids[:, 1:, None])[..., 0], distribution)

    def _known(self, ids: Sequence[int]) -> list[int]:
        """Return the ids as the draft model can read them: ids beyond its embedding become its last
        id."""
        return [min(token, self._rows - 1) for token in ids]


def _drawn(texts: TextGroup, logits: Tensor, roots: Rows, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next tokens of some texts [a], after the root and the tokens drafted so far, ids
    [A, m], and q [a, V]; at temperature 0, where all drafts are greedy, softmax(z)."""
    if texts.processors:
        each = zip(texts.processors, texts.rows, logits.split(1), strict=True)
        logits = torch.cat(
            [
                processor.apply(row_logits, processor.row(roots.start(row), *ids[row, 1:].split(1)))
                for processor, row, row_logits in each
            ]
        )
    p = target_distribution(logits, texts.sampling)
    q = displayed_distribution(logits, p, texts.sampling)
    if texts.noise is None:
        return q, lowest_argmax(logits)
    return q, draw(q, texts.noise[:, ids.shape[1] - 1]).ids
