"""A small language model as drafter: K forwards that do not return to the host.

Greedy drafts take its likeliest token; sampled drafts draw from its law q with the uniforms of the positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.drafting.none import without_draft
from mars_core.model_cache import ModelCache, input_embedding
from mars_core.sampling import Use, draw, lowest_argmax, shown_law, target_law
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, chain_draft


class ModelDrafter:
    """``vocabulary``: ids below it are shared with the target; others are never proposed."""

    def __init__(self, model: PreTrainedModel, k: int, mode: DraftMode, sampling: Sampling, vocabulary: int) -> None:
        self._cache = ModelCache(model)
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
        if len(ids) > 1:
            self._cache.forward(self._known(ids[:-1]), logits=1)

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        count = min(self._k, limit)
        if count == 0:
            return without_draft(ids, self._cache.device)
        self._proposed_at = len(ids)
        fed = self._known(ids[self._cache.length :])
        drafted, rows = [torch.tensor(ids[-1:], device=self._cache.device)], []
        for depth in range(count):
            logits = self._cache.forward(fed, logits=1)[:, : self._vocabulary]
            fed = self._choose(logits, u[depth : depth + 1, Use.DRAFT])
            drafted.append(fed)
            rows.append(logits)
        nodes, law = torch.cat(drafted), self._law(torch.cat(rows))
        chances = law.gather(-1, nodes[1:, None])[:, 0]
        return chain_draft(nodes, chances, law)

    def _known(self, ids: Sequence[int]) -> Tensor:
        """The ids as the draft model may read them: one that only the target's (padded) embedding has becomes its last."""
        return torch.tensor(ids, device=self._cache.device).clamp(max=self._rows - 1)

    def commit(self, path: Sequence[int]) -> None:
        """The last drafted token was never fed, so a wholly kept draft leaves one id to read."""
        self._cache.keep(self._proposed_at + len(path) - 1)

    def _choose(self, logits: Tensor, u: Tensor) -> Tensor:
        """The drafted id [1] after logits [1, V]."""
        return draw(self._law(logits), u)[0] if self._sampled else lowest_argmax(logits)

    def _law(self, logits: Tensor) -> Tensor:
        """q [N, V]: what sampled drafts are drawn from; at temperature 0, where all drafts are greedy, softmax(z)."""
        return shown_law(logits, target_law(logits, self._sampling), self._sampling)
