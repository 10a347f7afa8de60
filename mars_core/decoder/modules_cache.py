"""The cache for transformers' modules, for architectures without fast layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from mars_core.decoder.cache import CacheSize, ModelCache, input_embedding
from mars_core.decoder.positions import PassLayout, PositionIndex


class CurrentPass:
    """The current pass, shared by the layers of a cache; ``layout.start`` is an int."""

    layout: PassLayout


class LayerStore(DynamicLayer):
    """A layer of transformers' cache that keeps every position of one text, in preallocated
    memory. Sliding windows are applied by the mask, so that every rollback is exact."""

    def __init__(self, capacity: int, current_pass: CurrentPass) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._capacity, self._pass = capacity, current_pass

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        new = key_states, value_states
        if not self.is_initialized:
            self.lazy_initialization(*new)
            before = (*key_states.shape[:-2], self._capacity)
            self._buffers = [states.new_zeros(*before, states.shape[-1]) for states in new]
        start, width = self.get_seq_length(), self._pass.layout.segments[-1].width
        for buffer, states in zip(self._buffers, new, strict=True):
            buffer[..., start : start + states.shape[-2], :] = states
        self.keys, self.values = (buffer[..., :width, :] for buffer in self._buffers)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return max(0, cast(int, self._pass.layout.start))

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copy ``rows`` [n] to ``slots`` [n]."""
        for stored in self._buffers:
            stored.index_copy_(-2, slots, stored.index_select(-2, rows))


class ModulesCache(ModelCache):
    """Every position of every layer stays, sliding windows included (the mask carries the
    window)."""

    path = "transformers' modules"
    _one_width = True

    def __init__(
        self, model: PreTrainedModel, size: CacheSize, feature_layers: Sequence[int] = ()
    ) -> None:
        config = model.config.get_text_config(decoder=True)
        self._kinds = set(getattr(config, "layer_types", None) or ())
        window = (
            None if self._kinds == {"full_attention"} else getattr(config, "sliding_window", None)
        )
        like = input_embedding(model).weight.new_empty(0, dtype=model.dtype)
        index = PositionIndex(size.capacity, like, window=window, step=size.shapes.width_step)
        super().__init__(model, size, feature_layers, index)
        self._model, self._last, self._current = model, size.tokens - 1, CurrentPass()
        # called when a layer is first written to
        layer = cast(Any, partial(LayerStore, size.capacity, self._current))
        self._store = Cache(layer_class_to_replicate=layer)

    def move(self, rows: Tensor, slots: Tensor) -> None:
        for layer in self._store.layers:
            cast(LayerStore, layer).move(rows, slots)

    def _pass(
        self, ids: Tensor, layout: PassLayout, logits: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        self._current.layout = layout
        ids = ids[:, max(0, -cast(int, layout.start)) :]  # without what is before the text
        options: dict[str, Any] = {}
        if not layout.ends_at_width:
            (segment,) = layout.segments  # see ``_chunks``
            full, windowed = segment.full, segment.windowed  # [1, 1, n, width]
            mask = (
                {"full_attention": full, "sliding_attention": windowed} if self._kinds else windowed
            )
            # learned positions end with the context, which padding may exceed
            positions = layout.positions.clamp(max=self._last)
            options = {"attention_mask": mask, "position_ids": positions}
        output = self._model(
            input_ids=ids,
            past_key_values=self._store,
            use_cache=True,
            return_dict=True,
            logits_to_keep=logits,
            output_hidden_states=bool(self._feature_layers),
            **options,
        )
        return output.logits.float(), [output.hidden_states[tap] for tap in self._feature_layers]
