"""A small language model as drafter: K forward passes without a transfer to the host.

Greedy drafts take its most likely token; others are drawn from its distribution q. Both are
processed as the target's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mars_core.decoder import PassShapes, input_embedding, is_fast, open_cache
from mars_core.drafting.base import Drafter, DraftInputs, Inputs, Parts, Request
from mars_core.sampling import displayed_distribution, draw, lowest_argmax, target_distribution
from mars_core.types import Sampling
from mars_core.verification import Draft, chain_draft


class ModelDrafter(Drafter):
    """Only ids below the pair's ``vocabulary``, which target and draft model share, are proposed.
    Every draft begins by reading the last two tokens: what an earlier draft read at the first of
    them was not the text, where all of it was accepted."""

    computes = True

    def __init__(self, parts: Parts) -> None:
        pair, size = parts.pair, parts.target.size
        super().__init__(parts.config.k)
        assert pair.draft is not None, "validated"
        step = pair.shapes.width_step if is_fast(pair.draft) else 1
        size = size._replace(spare=self.longest, shapes=PassShapes(width_step=step))
        self._cache = open_cache(pair.draft, size)
        self._rows = input_embedding(pair.draft).num_embeddings
        self._vocabulary = pair.vocabulary

    def begin(self, slot: int, ids: Sequence[int], features: Tensor) -> None:
        if len(ids) > 1:
            read = torch.tensor(self._known(ids[:-1]), device=self._cache.device)
            self._cache.read(read, slot=slot)

    def inputs(self, requests: Sequence[Request]) -> Inputs:
        """The root, and the two ids to be read, which end with it; a text of one token is read
        twice at its position."""
        sizes = [min(each.limit, self.longest) for each in requests]
        starts = [len(each.ids) - 2 for each in requests]
        numbers = [
            [each.ids[-1], *self._known([each.ids[max(start, 0)], each.ids[-1]])]
            for each, start in zip(requests, starts, strict=True)
        ]
        return Inputs(sizes, starts, numbers)

    def draft(self, inputs: DraftInputs) -> Sequence[Draft]:
        size, roots, starts, _, numbers, conditions = inputs
        fed, drafted, drawn = numbers[:, 1:], [numbers[:, :1]], list[list[Tensor]]()
        rows = starts
        for depth in range(size):
            logits = self._cache.chains(fed, rows, logits=1)[:, 0, : self._vocabulary]
            rows = rows.later(fed.shape[1])
            written = torch.cat(drafted[1:], 1) if depth else fed[:, :0]
            drawn.append([])
            chosen = []
            for text, each in enumerate(conditions):
                q = logits[text : text + 1]
                if each.processor:
                    after = each.processor.row(roots.start(text), *written[text].split(1))
                    q = each.processor.apply(q, after)
                if each.noise is None:
                    chosen.append(lowest_argmax(q))
                else:
                    q = _distribution(q, each.sampling)
                    chosen.append(draw(q, each.noise[depth : depth + 1]).ids)
                drawn[-1].append(q)
            fed = torch.stack(chosen)
            drafted.append(fed)
        nodes, drafts = torch.cat(drafted, 1), []
        for text, each in enumerate(conditions):
            distribution = torch.cat([level[text] for level in drawn])
            if each.noise is None:
                distribution = _distribution(distribution, each.sampling)
            q = distribution.gather(-1, nodes[text, 1:, None])[:, 0]
            drafts.append(chain_draft(nodes[text], q, distribution))
        return drafts

    def _known(self, ids: Sequence[int]) -> list[int]:
        """The ids as the draft model can read them: ids beyond its embedding become its last id."""
        return [min(token, self._rows - 1) for token in ids]


def _distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """q [N, V], from which drafts are drawn; softmax(z) at temperature 0, where all drafts are
    greedy."""
    return displayed_distribution(logits, target_distribution(logits, sampling), sampling)
