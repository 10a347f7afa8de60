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
from mars_core.sampling import Use, draw, lowest_argmax, target_law
from mars_core.tree import chain
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft


class ModelDrafter:
    """``vocabulary``: ids below it are shared with the target; others are never proposed."""

    def __init__(self, model: PreTrainedModel, k: int, mode: DraftMode, sampling: Sampling, vocabulary: int) -> None:
        self._cache = ModelCache(model)
        self._rows = input_embedding(model).num_embeddings
        self._k = k
        self._mode = mode
        self._sampling = sampling
        self._vocabulary = vocabulary
        self._proposed_at = 0  # length of the sequence that the latest draft continues

    def prefill(self, ids: Sequence[int]) -> None:
        if len(ids) > 1:
            self._cache.forward(self._known(ids[:-1]), logits=1)

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        count = min(self._k, limit)
        if count == 0:
            return without_draft(ids, self._cache.device)
        self._proposed_at = len(ids)
        fed = self._known(ids[self._cache.length :])
        drafted, chances, laws = [torch.tensor(ids[-1:], device=self._cache.device)], [], []
        for depth in range(count):
            logits = self._cache.forward(fed, logits=1)[:, : self._vocabulary]
            fed, chance, law = self._choose(logits, u[depth : depth + 1, Use.DRAFT])
            drafted.append(fed)
            chances.append(chance)
            laws.append(law)
        whole = torch.cat(laws) if self._mode is DraftMode.SAMPLED else None
        return Draft(chain(count), torch.cat(drafted), torch.cat(chances), whole)

    def _known(self, ids: Sequence[int]) -> Tensor:
        """The ids as the draft model may read them: one that only the target's (padded) embedding has becomes its last."""
        return torch.tensor(ids, device=self._cache.device).clamp(max=self._rows - 1)

    def commit(self, kept: int) -> None:
        """The last drafted token was never fed, so a wholly kept draft leaves one id to read."""
        self._cache.keep(self._proposed_at + kept)

    def _choose(self, logits: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The drafted id [1], its probability [1] and the law [1, V] it is taken from."""
        if self._mode is DraftMode.SAMPLED:
            law = target_law(logits, self._sampling)
            token, _ = draw(law, u)
        else:
            law = logits.softmax(-1) if self._sampling.temperature == 0 else target_law(logits, self._sampling)
            token = lowest_argmax(logits)
        return token, law.gather(-1, token[:, None])[:, 0], law
