"""A causal language model with a key/value cache: token ids in, raw logits out.

Used for the target and for a draft model. A cache stores no length: a pass reads whatever was last written at the positions before it,
so that a rollback needs no operation. The memory is allocated once per run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder.positions import Place, PositionIndex, Start
from mars_core.decoder.store import ModulesStore, Store

CHUNK = 512  # prompt tokens per pass
_ALIGNED = 64


class CacheSize(NamedTuple):
    """Size of a cache and shape of its passes. ``rows``: tokens per pass, padded where there are fewer; None: no padding. ``whole``:
    passes attend over all positions of the cache. With both set, the logits of a row do not depend on the other rows (except for
    prompts, see ``read``)."""

    tokens: int  # of the longest text
    spare: int  # positions after the text that a pass may write to
    rows: int | None = None
    whole: bool = False

    @property
    def capacity(self) -> int:
        """Positions; with ``whole`` a multiple of ``_ALIGNED``, as attention kernels require for masks."""
        return round_up(self.tokens + self.spare, _ALIGNED if self.whole else 1)


class ModelCache(ABC):
    """``taps``: layers whose input the latest ``forward`` left in ``features`` [rows, taps · H], at a fixed address."""

    path: str  # how passes are computed, for the run's record
    _store: Store | ModulesStore

    def __init__(self, model: PreTrainedModel, size: CacheSize, taps: Sequence[int], index: PositionIndex) -> None:
        table = input_embedding(model).weight
        self.device = table.device
        self._size, self._taps, self._index = size, tuple(taps), index
        self.features = torch.zeros(size.spare, len(taps) * table.shape[1], dtype=model.dtype, device=self.device)

    def read(self, ids: Tensor, start: int = 0) -> Tensor:
        """Caches ids [n] at the positions from ``start`` on, ``CHUNK`` at a time. Returns their features [n, taps · H]."""
        found = [self.features[:0]]
        for chunk in ids.split(CHUNK) if len(ids) else ():
            place = self._index.chain(start, len(chunk), whole=False)
            found.append(self._pass(chunk, place, 1)[1])
            start += len(chunk)
        return torch.cat(found)

    def reread(self, ids: Tensor, start: int) -> Tensor:
        """As ``read``, but with passes of the shape of ``forward``, if that is fixed."""
        if self._size.rows is None:
            return self.read(ids, start)
        found = [self.features[:0]]
        for chunk in ids.split(self._size.rows) if len(ids) else ():
            self.forward(chunk, start, logits=1)
            found.append(self.features[: len(chunk)].clone())
            start += len(chunk)
        return torch.cat(found)

    def forward(self, ids: Tensor, start: Start, logits: int = 0) -> Tensor:
        """Caches ids [n] at the positions from ``start`` on; raw float32 logits [logits, V] after the last of them (0: after all)."""
        found = []
        for at in range(0, len(ids), self._size.rows or len(ids)):
            chunk = _filled(ids[at:], self._size.rows)
            place = self._index.chain(start + at, len(chunk))
            rows, features = self._pass(chunk, place, logits if self._size.rows is None else 0)
            if self._taps:
                self.features[at : at + len(chunk)].copy_(features)
            found.append(rows)
        return (torch.cat(found) if len(found) > 1 else found[0])[: len(ids)][-logits:]

    def forward_tree(self, ids: Tensor, start: Start, depths: Tensor, sees: Tensor) -> Tensor:
        """As ``forward`` for the nodes ids [N + 1] of a tree at ``depths`` below its root: each attends to the positions before
        ``start``, and the nodes of ``sees`` [N + 1, N + 1]."""
        count, rows = len(ids), self._size.rows
        if rows is not None:
            ids, depths, filled = _filled(ids, rows), _filled(depths, rows), torch.eye(rows, device=ids.device).bool()
            filled[:count, :count] = sees
            sees = filled
        place = self._index.tree(start, depths, sees)
        found, features = self._pass(ids, place, 0)
        if self._taps:
            self.features[: len(ids)].copy_(features)
        return found[:count]

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copies the entries at positions ``rows`` [n] to ``slots`` [n]."""
        self._store.move(rows, slots)

    @abstractmethod
    def _pass(self, ids: Tensor, place: Place, logits: int) -> tuple[Tensor, Tensor]:
        """One forward pass: float32 logits as of ``forward``, and the features [n, taps · H]."""


def round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _filled(ids: Tensor, rows: int | None) -> Tensor:
    """The first ``rows`` of ids, the last one repeated where there are fewer."""
    if rows is None:
        return ids
    missing = rows - len(ids)
    return torch.cat([ids, ids[-1:].expand(missing)]) if missing > 0 else ids[:rows]


def input_embedding(model: PreTrainedModel) -> nn.Embedding:
    """The token embedding table. Ids must be on its device and below its number of rows."""
    table = model.get_input_embeddings()
    assert isinstance(table, nn.Embedding)
    return table


def synchronise(device: torch.device) -> None:
    """Waits until the device has finished, so that wall-clock times are meaningful."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
