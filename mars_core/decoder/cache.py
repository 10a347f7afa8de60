"""A causal language model with a key/value cache: token ids in, raw logits out.

Used for the target and for a draft model. A cache knows no length: what stands at the positions before a pass is what was read there
last, so that a rollback is nothing to be done. The memory is taken once a run.
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

CHUNK = 512  # tokens of a prompt that are read in one pass
_ALIGNED = 64


class Room(NamedTuple):
    """How much a cache holds, and the shape of its passes.

    ``rows``: passes read so many tokens, filled up where there are fewer; None: as many as there are. ``whole``: passes look at all
    of the cache. With both a row's logits do not depend on what else is read (prompts, ``read``, excepted).
    """

    tokens: int  # of the longest text
    spare: int  # positions behind the text that a pass may write
    rows: int | None = None
    whole: bool = False

    @property
    def capacity(self) -> int:
        """Positions; of whole passes a multiple of ``_ALIGNED``, as the kernels of attention want their masks."""
        return round_up(self.tokens + self.spare, _ALIGNED if self.whole else 1)


class ModelCache(ABC):
    """``taps``: layers whose input is kept, in ``features`` [rows, taps · H]: those of the latest ``forward``, always at one address."""

    path: str  # how passes are computed, for the run's record
    _store: Store | ModulesStore

    def __init__(self, model: PreTrainedModel, room: Room, taps: Sequence[int], index: PositionIndex) -> None:
        table = input_embedding(model).weight
        self.device = table.device
        self._room, self._taps, self._index = room, tuple(taps), index
        self.features = torch.zeros(room.spare, len(taps) * table.shape[1], dtype=model.dtype, device=self.device)

    def read(self, ids: Tensor, start: int = 0) -> Tensor:
        """Caches ids [n] at the positions from ``start`` on, ``CHUNK`` at a time: their features [n, taps · H]."""
        found = [self.features[:0]]
        for chunk in ids.split(CHUNK) if len(ids) else ():
            place = self._index.chain(start, len(chunk), whole=False)
            found.append(self._pass(chunk, place, 1)[1])
            start += len(chunk)
        return torch.cat(found)

    def reread(self, ids: Tensor, start: int) -> Tensor:
        """As ``read``, in passes of the shape that ``forward`` has, where they have one."""
        if self._room.rows is None:
            return self.read(ids, start)
        found = [self.features[:0]]
        for chunk in ids.split(self._room.rows) if len(ids) else ():
            self.forward(chunk, start, logits=1)
            found.append(self.features[: len(chunk)].clone())
            start += len(chunk)
        return torch.cat(found)

    def forward(self, ids: Tensor, start: Start, logits: int = 0) -> Tensor:
        """Caches ids [n] at the positions from ``start`` on; raw float32 logits [logits, V] after the last of them (0: after all)."""
        found = []
        for at in range(0, len(ids), self._room.rows or len(ids)):
            chunk = _filled(ids[at:], self._room.rows)
            place = self._index.chain(start + at, len(chunk))
            rows, features = self._pass(chunk, place, logits if self._room.rows is None else 0)
            if self._taps:
                self.features[at : at + len(chunk)].copy_(features)
            found.append(rows)
        return (torch.cat(found) if len(found) > 1 else found[0])[: len(ids)][-logits:]

    def forward_tree(self, ids: Tensor, start: Start, depths: Tensor, sees: Tensor) -> Tensor:
        """As ``forward`` for the nodes ids [N + 1] of a tree at ``depths`` below its root: each sees what stands before ``start``, and
        the nodes of ``sees`` [N + 1, N + 1]."""
        count, rows = len(ids), self._room.rows
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
        """Copies what stands at the positions ``rows`` [n] to ``slots`` [n]."""
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
    """The table of token embeddings: its device is where ids go, its rows are the ids that may be read."""
    table = model.get_input_embeddings()
    assert isinstance(table, nn.Embedding)
    return table


def synchronise(device: torch.device) -> None:
    """Waits for the device, so that a clock read next means something."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
