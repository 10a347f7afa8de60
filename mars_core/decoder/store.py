"""Keys and values of the texts of a cache, allocated once; a pass reads and writes the positions of
its layout."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from mars_core.decoder.attention import Heads, attend
from mars_core.decoder.positions import PassLayout


class Store:
    """One tensor for all layers of one shape: [layers, 2 · key heads, slots · capacity, d], keys
    before values, with the dtype and on the device of ``like``."""

    layout: PassLayout  # of the current pass

    def __init__(self, layers: int, heads: Heads, slots: int, capacity: int, like: Tensor) -> None:
        self._heads = heads
        self._all = like.new_zeros(layers, 2 * heads.key, slots * capacity, heads.size)
        # of each layer, the second keys and values [slots, key heads, capacity, d]
        self.entries = [*self._all]
        by_slot = self._all.unflatten(2, (slots, capacity)).transpose(1, 2)
        self._texts = [layer.chunk(2, 1) for layer in by_slot]

    def attend(self, queries: Tensor, stored: Tensor, layer: int, windowed: bool) -> Tensor:
        """Stores keys and values [A, n, 2 · key heads, d] of the pass's tokens; queries [A, n,
        query heads, d] → what they attend to, [A, n, query heads · d]."""
        layout = self.layout
        self.entries[layer].index_copy_(1, layout.entries, stored.flatten(0, 1).transpose(0, 1))
        mixed = []
        for each in layout.segments:
            mask = each.windowed if windowed else each.full
            keys, values = (part[each.slots, :, : each.width] for part in self._texts[layer])
            mixed.append(attend(queries[each.region], keys, values, mask, self._heads))
        if len(mixed) == 1:
            return mixed[0]
        together = mixed[0].new_empty(*queries.shape[:2], mixed[0].shape[-1])
        for each, part in zip(layout.segments, mixed, strict=True):
            together[each.region] = part
        return together

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copies ``rows`` [n] to ``slots`` [n], counted over all slots, in every layer."""
        self._all.index_copy_(-2, slots, self._all.index_select(-2, rows))


class CurrentPass:
    """The current pass, shared by the layers of a ``ModulesStore``; ``layout.start`` is an int."""

    layout: PassLayout


class LayerStore(DynamicLayer):
    """A layer of transformers' cache that keeps every position of one text, in preallocated
    memory."""

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
        start, width = self.get_seq_length(), self._pass.layout.segments[-1].width
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[..., start : start + states.shape[-2], :] = states
        keys, values = (buffer[..., :width, :] for buffer in self._buffers)
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
