"""A causal language model with a key/value cache that can be rolled back: token ids in, raw logits out.

Used for the target and for a draft model. The memory is taken once a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

CHUNK = 512  # tokens of a prompt that are read in one pass


class ModelCache(ABC):
    """``length`` positions are cached. Not to be shared between runs that take turns.

    ``taps``: layers whose input is kept of every forward pass, in ``features`` [n, taps · H], for a drafter that reads them.
    """

    path: str  # how passes are computed, for the run's record

    def __init__(self, model: PreTrainedModel, taps: Sequence[int]) -> None:
        self.device = input_embedding(model).weight.device
        self.length = 0
        self.features: Tensor | None = None
        self._taps = tuple(taps)

    def read(self, ids: Tensor) -> None:
        """Caches a prompt's ids [n], a chunk at a time; ``features`` are those of all of it."""
        found = []
        for chunk in ids.split(CHUNK):
            self._pass(chunk, None, logits=1)
            found.append(self.features)
        if self._taps:
            self.features = torch.cat(cast(list[Tensor], found))

    def forward(self, ids: Tensor, logits: int = 0) -> Tensor:
        """Caches ids [n] after what is there; raw float32 logits [logits, V] of the last ``logits`` of them (0: of all)."""
        return self._pass(ids, None, logits)

    def forward_tree(self, ids: Tensor, depths: Tensor, sees: Tensor) -> Tensor:
        """As ``forward`` for the nodes ids [N + 1] of a tree: each sees what is cached and the nodes of ``sees`` [N + 1, N + 1]."""
        return self._pass(ids, (depths, sees), 0)

    def keep(self, length: int) -> None:
        """Forgets all positions from ``length`` on."""
        if length < self.length:
            self._crop(self.length - length)
            self.length = length

    def keep_path(self, root: int, path: Sequence[int]) -> None:
        """Of the tree whose root was cached at position ``root``, keeps the nodes of ``path`` (root included), in place."""
        if tuple(path) != tuple(range(len(path))):
            self.move(path, root)
        self.keep(root + len(path))

    @abstractmethod
    def _pass(self, ids: Tensor, tree: tuple[Tensor, Tensor] | None, logits: int) -> Tensor:
        """One forward pass; sets ``features``, advances ``length``."""

    @abstractmethod
    def _crop(self, count: int) -> None:
        """Takes the last ``count`` positions back."""

    @abstractmethod
    def move(self, path: Sequence[int], start: int) -> None:
        """Copies the rows at ``start`` + path to the rows from ``start`` on."""


def input_embedding(model: PreTrainedModel) -> nn.Embedding:
    """The table of token embeddings: its device is where ids go, its rows are the ids that may be read."""
    table = model.get_input_embeddings()
    assert isinstance(table, nn.Embedding)
    return table


def synchronise(device: torch.device) -> None:
    """Waits for the device, so that a clock read next means something."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
