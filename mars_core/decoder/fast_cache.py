"""The cache for models with fast layers: a pass is embedding, layers, norm and output
projection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder.architectures import LLAMA, architecture, number
from mars_core.decoder.attention import Store, capped
from mars_core.decoder.cache import CacheSize, ModelCache, input_embedding
from mars_core.decoder.layer import Core, FastLayer, Rotary, rotary_of
from mars_core.decoder.positions import PassLayout, PositionIndex
from mars_core.decoder.quantised.layers import CompiledLayers, compilable

if TYPE_CHECKING:
    from mars_core.decoder.fused import Fused


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
        self._layers: list[FastLayer] = list(decoder.layers)
        self._embed, self._norm = input_embedding(model), decoder.norm
        like = self._embed.weight
        self._output: Any = model.get_output_embeddings()
        heads, config = self._layers[0].core.heads, model.config
        row = architecture(model) or LLAMA
        self._scale = number(config, row.embedding_scale)
        self._cap, self._divisor = (
            number(config, name) for name in (row.logit_cap, row.logit_divisor)
        )
        window = getattr(config, "sliding_window", None)
        self._windows = [window if layer.windowed else None for layer in self._layers]
        cores = [layer.core for layer in self._layers]
        kernels = size.shapes.kernels and has_fused(cores)
        index = PositionIndex(
            size.capacity,
            like,
            slots=size.slots,
            group=heads.query // heads.key,
            window=window if any(self._windows) else None,
            step=size.shapes.width_step,
            trails=kernels,
        )
        super().__init__(model, size, feature_layers, index)
        self._rotaries = {
            kind: rotary_table(decoder.rotary_emb, size, like, kind)
            for kind in {layer.rotary for layer in self._layers}
        }
        self._store: Store = Store(len(self._layers), heads, size.slots, size.capacity, like)
        self._fused: Fused | CompiledLayers | None = None
        if kernels:
            rotaries = [self._rotaries[layer.rotary] for layer in self._layers]
            self._fused, self.path = fused_layers(cores, self._store, rotaries), "kernels"

    def _pass(self, ids: Tensor, layout: PassLayout, logits: int) -> tuple[Tensor, Tensor]:
        self._store.layout = layout
        fused = self._fused if layout.trail else None
        rotaries = {} if fused else {k: v.at(layout.positions) for k, v in self._rotaries.items()}
        hidden = self._embed.forward(ids)
        if self._scale is not None:
            hidden = hidden * self._scale
        tapped = {}
        for at, (layer, window) in enumerate(zip(self._layers, self._windows, strict=True)):
            if at in self._feature_layers:
                tapped[at] = hidden.clone()
            if fused:
                hidden = fused.through(layer.core, hidden, hidden, at, layer.norm, window)
            else:
                windowed = window is not None
                attention = partial(self._store.attend, layer=at, windowed=windowed)
                hidden = layer.step(hidden, rotaries[layer.rotary], attention)
        if len(self._layers) in self._feature_layers:
            tapped[len(self._layers)] = self._norm(hidden)
        last = hidden[:, -logits:]
        rows: Tensor = (
            fused.product(last, self._output, self._norm, dtype=torch.float32)
            if fused
            else self._output(self._norm(last))
        )
        if self._divisor is not None:
            rows = rows / self._divisor
        return capped(rows, self._cap), torch.cat(
            [tapped[tap] for tap in self._feature_layers], -1
        ) if self._feature_layers else self.features[:, :0]


def has_fused(cores: Sequence[Core]) -> bool:
    """Return whether ``fused_layers`` computes them."""
    return all(map(compilable, cores)) or all(core.fusable for core in cores)


def fused_layers(
    cores: Sequence[Core], store: Store, rotaries: Sequence[Rotary]
) -> Fused | CompiledLayers:
    """Return layers in few calls each: in C those of packed weights, else by kernels of Triton."""
    if all(map(compilable, cores)):
        return CompiledLayers(store, rotaries)
    from mars_core.decoder.fused import Fused  # imports Triton

    return Fused(store, rotaries)


def rotary_table(module: Any, size: CacheSize, like: Tensor, kind: str | None = "") -> Rotary:
    """Rotary positions of a cache from one of transformers' rotary modules, in the dtype and on the
    device of ``like``; ``kind``: see ``FastLayer``. Positions after the longest text repeat its
    last one: some rotary scalings change when a position beyond the context is requested."""
    positions = torch.arange(size.capacity, device=like.device).clamp(max=size.tokens - 1)
    turns = rotary_of(module, like[:1, None], positions[None], kind)
    return Rotary.of(*turns, like, still=kind is None)
