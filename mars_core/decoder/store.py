"""Keys and values of a run, in memory that is taken once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from mars_core.decoder.spans import Span


class Store:
    """One tensor for all layers of one shape: [2, layers, key heads, capacity, d]. Rows are written where ``span`` says."""

    span: Span

    def __init__(
        self, layers: int, heads: int, capacity: int, size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._all = torch.zeros(2, layers, heads, capacity, size, dtype=dtype, device=device)
        self._keys, self._values = self._all.unsqueeze(2)  # [layers, 1, key heads, capacity, d] each
        self._layers = list(zip(self._keys, self._values, strict=True))

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values [1, key heads, n, d] of the pass's tokens → those of all rows of the span."""
        slots, width = self.span.slots, self.span.width
        stored_keys, stored_values = self._layers[layer]
        stored_keys.index_copy_(2, slots, keys)
        stored_values.index_copy_(2, slots, values)
        return stored_keys[:, :, :width], stored_values[:, :, :width]

    def move(self, rows: Tensor, start: int) -> None:
        """Copies ``rows`` [n] to the rows from ``start`` on, in every layer."""
        self._all[..., start : start + len(rows), :] = self._all.index_select(-2, rows)

    def move_to(self, rows: Tensor, slots: Tensor) -> None:
        """Copies ``rows`` [n] to ``slots`` [n], in every layer."""
        self._all.index_copy_(-2, slots, self._all.index_select(-2, rows))


class FixedLayer(DynamicLayer):
    """A layer of transformers' cache that keeps every position, in memory that is taken once."""

    def __init__(self, capacity: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._capacity = capacity

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self._room = [
            states.new_empty(*states.shape[:-2], self._capacity, states.shape[-1])
            for states in (key_states, value_states)
        ]
        self._show(0)

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        for room, states in zip(self._room, (key_states, value_states), strict=True):
            room[..., start : start + states.shape[-2], :] = states
        return self._show(start + key_states.shape[-2])

    def crop(self, tokens_to_remove: int) -> None:
        if self.is_initialized:
            self._show(self.get_seq_length() + tokens_to_remove)

    def move(self, path: Sequence[int], start: int) -> None:
        """Copies the rows at ``start`` + path to the rows from ``start`` on."""
        rows = torch.tensor(path, device=self.device) + start
        for stored in self._room:
            stored[..., start : start + len(path), :] = stored[..., rows, :]

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        keys, values = (room[..., :length, :] for room in self._room)
        self.keys, self.values = keys, values
        return keys, values


def fixed_cache(capacity: int) -> DynamicCache:
    """A cache for transformers' own forward pass. A sliding window is left to the mask, so that every rollback is exact."""
    cache = DynamicCache()
    cache.layer_class_to_replicate = cast(Any, lambda: FixedLayer(capacity))  # called where a layer is first written to
    return cache
