"""Keys and values of a run, allocated once; a pass reads and writes the positions of its layout."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from mars_core.decoder.positions import PassLayout


class Store:
    """One tensor for all layers of one shape: [2, layers, key heads, capacity, d], with the dtype
    and on the device of ``like``."""

    layout: PassLayout  # of the current pass

    def __init__(self, layers: int, heads: int, capacity: int, size: int, like: Tensor) -> None:
        self._all = like.new_zeros(2, layers, heads, capacity, size)
        # Keys and values [1, key heads, capacity, d] each.
        self._layers = list(zip(*self._all.unsqueeze(2), strict=True))

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Stores keys and values [1, key heads, n, d] of the pass's tokens → those of all positions
        it attends to."""
        stored_keys, stored_values = self._layers[layer]
        stored_keys.index_copy_(2, self.layout.slots, keys)
        stored_values.index_copy_(2, self.layout.slots, values)
        return stored_keys[:, :, : self.layout.width], stored_values[:, :, : self.layout.width]

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copies ``rows`` [n] to ``slots`` [n], in every layer."""
        self._all.index_copy_(-2, slots, self._all.index_select(-2, rows))


class CurrentPass:
    """The current pass, shared by the layers of a ``ModulesStore``; ``layout.start`` is an int."""

    layout: PassLayout


class LayerStore(DynamicLayer):
    """A layer of transformers' cache that keeps every position, in preallocated memory."""

    def __init__(self, capacity: int, current_pass: CurrentPass) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._capacity, self._pass = capacity, current_pass

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        before = (*key_states.shape[:-2], self._capacity)
        self._buffers = [
            states.new_zeros(*before, states.shape[-1]) for states in (key_states, value_states)
        ]

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[..., start : start + states.shape[-2], :] = states
        keys, values = (buffer[..., : self._pass.layout.width, :] for buffer in self._buffers)
        self.keys, self.values = keys, values
        return keys, values

    def get_seq_length(self) -> int:
        return cast(int, self._pass.layout.start)

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copies ``rows`` [n] to ``slots`` [n]."""
        for stored in self._buffers:
            stored.index_copy_(-2, slots, stored.index_select(-2, rows))


class ModulesStore(DynamicCache):
    """A cache for transformers' forward pass. Sliding windows are applied by the mask, so that
    every rollback is exact."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.current_pass = current_pass = CurrentPass()
        # Called when a layer is first written to.
        self.layer_class_to_replicate = cast(Any, lambda: LayerStore(capacity, current_pass))

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copies ``rows`` [n] to ``slots`` [n], in every layer."""
        for layer in self.layers:
            cast(LayerStore, layer).move(rows, slots)
