"""The cache for models with fast layers: a pass is embedding, layers, norm and output
projection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder.cache import CacheSize, ModelCache, input_embedding
from mars_core.decoder.layer import FastLayer, Rotary
from mars_core.decoder.positions import PassLayout, PositionIndex
from mars_core.decoder.store import Store


def is_fast(model: PreTrainedModel) -> bool:
    """Return whether ``prepare`` installed fast layers in the model."""
    layers: Any = getattr(model.get_decoder(), "layers", None)
    return bool(layers) and all(isinstance(layer, FastLayer) for layer in layers)


class FastCache(ModelCache):
    """For a model of the Llama family with fast layers."""

    path = "fast layers, eager"

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
        self._windowed = [window is not None and kind == "sliding_attention" for kind in kinds]
        index = PositionIndex(
            size.capacity,
            like,
            slots=size.slots,
            group=heads.query // heads.key,
            window=window if any(self._windowed) else None,
            step=size.shapes.width_step,
        )
        super().__init__(model, size, feature_layers, index)
        self._rotary = rotary_table(decoder.rotary_emb, size, like)
        self._store: Store = Store(len(self._layers), heads, size.slots, size.capacity, like)

    def _pass(self, ids: Tensor, layout: PassLayout, logits: int) -> tuple[Tensor, Tensor]:
        self._store.layout = layout
        rotary = self._rotary.at(layout.positions)
        hidden = self._embed.forward(ids)
        tapped = {}
        for number, (layer, windowed) in enumerate(zip(self._layers, self._windowed, strict=True)):
            if number in self._feature_layers:
                tapped[number] = hidden.clone()
            attention = partial(self._store.attend, layer=number, windowed=windowed)
            hidden = layer.step(hidden, rotary, attention)
        if len(self._layers) in self._feature_layers:
            tapped[len(self._layers)] = self._norm(hidden)
        rows: Tensor = self._output(self._norm(hidden[:, -logits:]))
        return rows, torch.cat(
            [tapped[tap] for tap in self._feature_layers], -1
        ) if self._feature_layers else self.features[:, :0]


def rotary_table(module: Any, size: CacheSize, like: Tensor) -> Rotary:
    """Rotary positions of a cache from one of transformers' rotary modules, in the dtype and on the
    device of ``like``. Positions after the longest text repeat its last one: some rotary scalings
    change when a position beyond the context is requested."""
    positions = torch.arange(size.capacity, device=like.device).clamp(max=size.tokens - 1)
    return Rotary.of(*module(like[:1, None], positions[None]))
