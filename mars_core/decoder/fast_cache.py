"""The cache for models with fast layers: a pass is embedding, layers, norm and output
projection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder.cache import CacheSize, ModelCache, input_embedding
from mars_core.decoder.layer import FastLayer, Rotary
from mars_core.decoder.positions import PassLayout, PositionIndex
from mars_core.decoder.store import Store

if TYPE_CHECKING:
    from mars_core.decoder.fused import Fused


def is_fast(model: PreTrainedModel) -> bool:
    """Return whether ``prepare`` installed fast layers in the model."""
    layers: Any = getattr(model.get_decoder(), "layers", None)
    return bool(layers) and all(isinstance(layer, FastLayer) for layer in layers)


class FastCache(ModelCache):
    """For a model of the Llama family with fast layers."""

    path = "fast layers"

    def __init__(
        self, model: PreTrainedModel, size: CacheSize, feature_layers: Sequence[int] = ()
    ) -> None:
        decoder: Any = model.get_decoder()
        self._layers: list[FastLayer] = list(decoder.layers)
        self._embed, self._norm = input_embedding(model), decoder.norm
        like = self._embed.weight
        self._output: Any = model.get_output_embeddings()
        heads, config = self._layers[0].core.heads, model.config
        kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * len(self._layers)
        window = getattr(config, "sliding_window", None)
        self._windows = [window if kind == "sliding_attention" else None for kind in kinds]
        index = PositionIndex(
            size.capacity,
            like,
            slots=size.slots,
            group=heads.query // heads.key,
            window=window if any(self._windows) else None,
            step=size.shapes.width_step,
            trails=size.shapes.kernels,
        )
        super().__init__(model, size, feature_layers, index)
        self._rotary = rotary_table(decoder.rotary_emb, size, like)
        self._store: Store = Store(len(self._layers), heads, size.slots, size.capacity, like)
        self._fused: Fused | None = None
        if size.shapes.kernels:
            from mars_core.decoder.fused import Fused  # imports Triton

            cores = [layer.core for layer in self._layers]
            self._fused, self.path = Fused(cores, self._store, self._rotary), "kernels"

    def _pass(self, ids: Tensor, layout: PassLayout, logits: int) -> tuple[Tensor, Tensor]:
        self._store.layout = layout
        fused = self._fused if layout.trail else None
        rotary = None if fused else self._rotary.at(layout.positions)
        hidden = self._embed.forward(ids)
        tapped = {}
        for number, (layer, window) in enumerate(zip(self._layers, self._windows, strict=True)):
            if number in self._feature_layers:
                tapped[number] = hidden.clone()
            if fused:
                hidden = fused.through(layer.core, hidden, hidden, number, layer.norm, window)
            elif rotary:
                windowed = window is not None
                attention = partial(self._store.attend, layer=number, windowed=windowed)
                hidden = layer.step(hidden, rotary, attention)
        if len(self._layers) in self._feature_layers:
            tapped[len(self._layers)] = self._norm(hidden)
        last = hidden[:, -logits:]
        rows: Tensor = (
            fused.product(last, self._output, self._norm, dtype=torch.float32)
            if fused
            else self._output(self._norm(last))
        )
        return rows, torch.cat(
            [tapped[tap] for tap in self._feature_layers], -1
        ) if self._feature_layers else self.features[:, :0]


def rotary_table(module: Any, size: CacheSize, like: Tensor) -> Rotary:
    """Rotary positions of a cache from one of transformers' rotary modules, in the dtype and on the
    device of ``like``. Positions after the longest text repeat its last one: some rotary scalings
    change when a position beyond the context is requested."""
    positions = torch.arange(size.capacity, device=like.device).clamp(max=size.tokens - 1)
    return Rotary.of(*module(like[:1, None], positions[None]))
