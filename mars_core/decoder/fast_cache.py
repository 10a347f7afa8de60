"""The cache for models with fast layers: a pass is embedding, layers, norm and output
projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder.architectures import LLAMA, architecture, number
from mars_core.decoder.attention import capped
from mars_core.decoder.cache import CacheSize, ModelCache, input_embedding
from mars_core.decoder.layer import FastLayer
from mars_core.decoder.positions import PassLayout
from mars_core.decoder.stack import LayerStack


def is_fast(model: PreTrainedModel) -> bool:
    """Return whether ``prepare`` installed fast layers in the model."""
    layers: Any = getattr(model.get_decoder(), "layers", None)
    return bool(layers) and all(isinstance(layer, FastLayer) for layer in layers)


class FastCache(ModelCache):
    """For a model with fast layers."""

    path = "fast layers"

    def __init__(
        self, model: PreTrainedModel, size: CacheSize, feature_layers: Sequence[int] = ()
    ) -> None:
        decoder: Any = model.get_decoder()
        self._embed, self._norm = input_embedding(model), decoder.norm
        like, config = self._embed.weight, model.config
        self._output: Any = model.get_output_embeddings()
        row = architecture(model) or LLAMA
        self._scale = number(config, row.embedding_scale)
        self._cap, self._divisor = (
            number(config, name) for name in (row.logit_cap, row.logit_divisor)
        )
        self._count, window = len(decoder.layers), getattr(config, "sliding_window", None)
        self.layers = LayerStack([*decoder.layers], decoder.rotary_emb, window, size, like)
        if self.layers.fused:
            self.path = "kernels"
        super().__init__(model, size, feature_layers, self.layers.index)

    def move(self, rows: Tensor, slots: Tensor) -> None:
        self.layers.store.move(rows, slots)

    def _pass(
        self, ids: Tensor, layout: PassLayout, logits: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        fused, hidden = self.layers.begin(layout), self._embed.forward(ids)
        if self._scale is not None:
            hidden = hidden * self._scale
        tapped = {}
        for at in range(self._count):
            if at in self._feature_layers:
                tapped[at] = hidden.clone()
            hidden = self.layers.through(at, hidden, hidden)
        if self._count in self._feature_layers:
            tapped[self._count] = self._norm(hidden)
        last = hidden[:, -logits:]
        rows: Tensor = (
            fused.product(last, self._output, self._norm, dtype=torch.float32)
            if fused
            else self._output(self._norm(last))
        )
        if self._divisor is not None:
            rows = rows / self._divisor
        return capped(rows, self._cap), [tapped[tap] for tap in self._feature_layers]
