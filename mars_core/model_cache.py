"""A causal language model with a key/value cache that can be rolled back: token ids in, raw logits out.

Used for the target and for a draft model. A plain ``DynamicCache()`` keeps every position of every layer, sliding windows
included (the mask carries the window), so that a rollback is always exact.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel


class ModelCache:
    """``length`` positions are cached. Not to be shared between runs."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.device = input_embedding(model).weight.device
        self.length = 0
        self._cache = DynamicCache()

    def forward(self, ids: Tensor, logits: int = 0) -> Tensor:
        """Caches ids [n] after what is there; raw float32 logits [logits, V] of the last ``logits`` of them (0: of all)."""
        output = self.model(
            input_ids=ids[None], past_key_values=self._cache, use_cache=True, logits_to_keep=logits, return_dict=True
        )
        self.length += len(ids)
        rows: Tensor = output.logits[0].float()
        return rows

    def keep(self, length: int) -> None:
        """Forgets all positions from ``length`` on."""
        if length < self.length:
            self._cache.crop(length - self.length)
            self.length = length


def input_embedding(model: PreTrainedModel) -> nn.Embedding:
    """The table of token embeddings: its device is where ids go, its rows are the ids that may be read."""
    table = model.get_input_embeddings()
    assert isinstance(table, nn.Embedding)
    return table


def synchronise(device: torch.device) -> None:
    """Waits for the device, so that a clock read next means something."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
