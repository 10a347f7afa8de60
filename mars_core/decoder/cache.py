"""A causal language model with a key/value cache: token ids in, raw logits out.

Used for the target and for a draft model. A cache stores no length: a pass reads whatever was last
written at the positions before it, so that a rollback needs no operation. The memory is allocated
once per run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder.positions import PassLayout, PositionIndex, Start
from mars_core.decoder.store import ModulesStore, Store

CHUNK = 512  # prompt tokens per pass
_ALIGNED = 64


class PassShapes(NamedTuple):
    """The shapes that passes may have. Rows (tokens) are padded to a multiple of ``row_step``, and
    more than ``most_rows`` are read in several passes. Passes end at multiples of ``width_step``
    and attend over the positions up to the next one, with a mask: so the width of a token's pass
    follows from its position. A tree is read in one pass. See ``models.exactness``."""

    row_step: int = 1
    most_rows: int = CHUNK
    width_step: int = 1

    def __str__(self) -> str:
        return f"rows in multiples of {self.row_step}, at most {self.most_rows}; widths in multiples of {self.width_step}"


ANY_SHAPE = PassShapes()


class CacheSize(NamedTuple):
    """Size of a cache and the shapes of its passes. ``full_width``: ``forward`` attends over all
    positions of the cache."""

    tokens: int  # of the longest text
    spare: int  # positions after the text that a pass may write to, without padding
    shapes: PassShapes = ANY_SHAPE
    full_width: bool = False

    @property
    def capacity(self) -> int:
        """Positions; with ``full_width`` a multiple of ``_ALIGNED``, as attention kernels require
        for masks."""
        spare = round_up(self.spare, self.shapes.row_step)
        return round_up(
            self.tokens + spare, max(self.shapes.width_step, _ALIGNED if self.full_width else 1)
        )


class ModelCache(ABC):
    """``feature_layers``: layers whose input the latest ``forward`` left in ``features`` [rows,
    layers · H], at a fixed address."""

    path: str  # how passes are computed, for the run's record
    _store: Store | ModulesStore

    def __init__(
        self,
        model: PreTrainedModel,
        size: CacheSize,
        feature_layers: Sequence[int],
        index: PositionIndex,
    ) -> None:
        table = input_embedding(model).weight
        self.device = table.device
        self._size, self._feature_layers, self._index = size, tuple(feature_layers), index
        self.features = torch.zeros(
            size.spare, len(feature_layers) * table.shape[1], dtype=model.dtype, device=self.device
        )

    def read(self, ids: Tensor, start: int = 0, rows: int = CHUNK) -> Tensor:
        """Caches ids [n] at the positions from ``start`` on, ``rows`` at a time. Returns their
        features [n, layers · H]."""
        features = [self.features[:0]]
        for chunk in self._chunks(ids, start, rows, full_width=False):
            features.append(self._chain(chunk, start, 1, full_width=False)[1])
            start += len(chunk)
        return torch.cat(features)

    def reread(self, ids: Tensor, start: int) -> Tensor:
        """As ``read``, with as few rows a pass as ``forward`` may have."""
        return self.read(ids, start, self._size.shapes.most_rows)

    def forward(self, ids: Tensor, start: Start, logits: int = 0) -> Tensor:
        """Caches ids [n] at the positions from ``start`` on; raw float32 logits [logits, V] after
        the last of them (0: after all)."""
        parts, at, size = [], 0, self._size
        for chunk in self._chunks(ids, start, size.shapes.most_rows, full_width=size.full_width):
            rows, features = self._chain(chunk, start + at, logits, full_width=size.full_width)
            if self._feature_layers:
                self.features[at : at + len(chunk)].copy_(features)
            parts.append(rows)
            at += len(chunk)
        return (torch.cat(parts) if len(parts) > 1 else parts[0])[-logits:]

    def _chunks(
        self, ids: Tensor, start: Start, rows: int, *, full_width: bool
    ) -> Sequence[Tensor]:
        """The ids of each pass."""
        step = self._size.shapes.width_step
        if full_width or step == 1:
            return ids.split(rows) if len(ids) else ()
        assert isinstance(start, int), "a captured pass attends over the full cache"
        first = ids[: -start % step]
        return [
            each
            for part in (first, *ids[len(first) :].split(step))
            if len(part)
            for each in part.split(rows)
        ]

    def _chain(
        self, ids: Tensor, start: Start, logits: int, *, full_width: bool
    ) -> tuple[Tensor, Tensor]:
        """One pass over consecutive ids [n]: logits and features as of ``_pass``, without those of
        the padding."""
        filled = _padded(ids, self._size.shapes.row_step)
        padding = len(filled) - len(ids)
        layout = self._index.chain(start, len(filled), full_width=full_width, padding=padding)
        rows, features = self._pass(filled, layout, 0 if padding else logits)
        return (rows[: len(ids)] if padding else rows), features[: len(ids)]

    def forward_tree(self, ids: Tensor, start: Start, depths: Tensor, sees: Tensor) -> Tensor:
        """As ``forward`` for the nodes ids [N + 1] of a tree at ``depths`` below its root: each
        attends to the positions before ``start``, and the nodes of ``sees`` [N + 1, N + 1]."""
        count, rows = len(ids), round_up(len(ids), self._size.shapes.row_step)
        if rows > count:
            padded = torch.eye(rows, device=ids.device).bool()
            padded[:count, :count] = sees
            ids, depths, sees = _padded(ids, rows), _padded(depths, rows), padded
        layout = self._index.tree(start, depths, sees, full_width=self._size.full_width)
        logits, features = self._pass(ids, layout, 0)
        if self._feature_layers:
            self.features[:count].copy_(features[:count])
        return logits[:count]

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copies the entries at positions ``rows`` [n] to ``slots`` [n]."""
        self._store.move(rows, slots)

    @abstractmethod
    def _pass(self, ids: Tensor, layout: PassLayout, logits: int) -> tuple[Tensor, Tensor]:
        """One forward pass: float32 logits as of ``forward``, and the features [n, layers · H]."""


def round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _padded(ids: Tensor, step: int) -> Tensor:
    """The ids, the last one repeated up to a multiple of ``step``."""
    missing = -len(ids) % step
    return torch.cat([ids, ids[-1:].expand(missing)]) if missing else ids


def input_embedding(model: PreTrainedModel) -> nn.Embedding:
    """The token embedding table. Ids must be on its device and below its number of rows."""
    table = model.get_input_embeddings()
    assert isinstance(table, nn.Embedding)
    return table


def synchronise(device: torch.device) -> None:
    """Waits until the device has finished, so that wall-clock times are meaningful."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
