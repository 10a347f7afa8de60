"""A small language model as drafter: K forwards that do not return to the host.

Greedy drafts take its likeliest token; sampled drafts draw from its law q with the uniforms of the positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder import input_embedding, open_cache
from mars_core.decoder.direct_cache import DirectCache
from mars_core.decoder.spans import fixed
from mars_core.drafting.none import without_draft
from mars_core.sampling import Use, draw, lowest_argmax, shown_law, target_law
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, chain_draft


class ModelDrafter:
    """``vocabulary``: ids below it are shared with the target; others are never proposed. For texts of at most ``tokens``."""

    branches = False

    def __init__(
        self, model: PreTrainedModel, tokens: int, k: int, mode: DraftMode, sampling: Sampling, vocabulary: int
    ) -> None:
        self.ahead = k + 1
        self._cache = open_cache(model, tokens, self.ahead)
        self._rows = input_embedding(model).num_embeddings
        self._k = k
        self._sampled = mode is DraftMode.SAMPLED and sampling.temperature > 0
        self._sampling = sampling
        self._vocabulary = vocabulary
        self._proposed_at = 0  # length of the sequence that the latest draft continues

    @property
    def longest(self) -> int:
        return self._k

    def prefill(self, ids: Sequence[int]) -> None:
        self._cache.keep(0)
        if len(ids) > 1:
            self._cache.read(self._known(ids[:-1]))

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        count = min(self._k, limit)
        if count == 0:
            return without_draft(ids, self._cache.device)
        self._proposed_at = len(ids)
        root = torch.tensor(ids[-1:], device=self._cache.device)
        return self._draft(root, self._known(ids[self._cache.length :]), count, u)

    def commit(self, path: Sequence[int]) -> None:
        """The last drafted token was never fed, so a wholly kept draft leaves one id to read."""
        self._cache.keep(self._proposed_at + len(path) - 1)

    def numbers(self, ids: Sequence[int]) -> list[int] | None:
        """The last two ids are read, of which the first one may be cached already."""
        if not isinstance(self._cache, DirectCache) or len(ids) < 2:
            return None
        return [len(ids) - 2, *(min(id_, self._rows - 1) for id_ in ids[-2:]), ids[-1]]

    def fixed(self, told: Tensor, u: Tensor, width: int) -> Draft:
        assert isinstance(self._cache, DirectCache)
        with fixed(self._cache, told[0], width):
            return self._draft(told[3:4], told[1:3], self._k, u)

    def commit_fixed(self, ids: Sequence[int], path: Sequence[int]) -> None:
        self._cache.length = len(ids) + min(len(path) - 1, self._k - 1)

    def _draft(self, root: Tensor, fed: Tensor, count: int, u: Tensor) -> Draft:
        """``count`` tokens after ``root`` [1], where ``fed`` ends with it as the draft model may read it."""
        drafted, rows = [root], []
        for depth in range(count):
            logits = self._cache.forward(fed, logits=1)[:, : self._vocabulary]
            fed = self._choose(logits, u[depth : depth + 1, Use.DRAFT])
            drafted.append(fed)
            rows.append(logits)
        nodes, law = torch.cat(drafted), self._law(torch.cat(rows))
        return chain_draft(nodes, law.gather(-1, nodes[1:, None])[:, 0], law)

    def _known(self, ids: Sequence[int]) -> Tensor:
        """The ids as the draft model may read them: one that only the target's (padded) embedding has becomes its last."""
        return torch.tensor(ids, device=self._cache.device).clamp(max=self._rows - 1)

    def _choose(self, logits: Tensor, u: Tensor) -> Tensor:
        """The drafted id [1] after logits [1, V]."""
        return draw(self._law(logits), u).ids if self._sampled else lowest_argmax(logits)

    def _law(self, logits: Tensor) -> Tensor:
        """q [N, V]: what sampled drafts are drawn from; at temperature 0, where all drafts are greedy, softmax(z)."""
        return shown_law(logits, target_law(logits, self._sampling), self._sampling)
