"""The layers of a cache, over the keys and values of its texts: computed in few calls each where
there are kernels for a pass, else one operation after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mars_core.decoder.attention import Store
from mars_core.decoder.cache import CacheSize
from mars_core.decoder.layer import FastLayer, PlacedLayer, Rotary, rotary_of
from mars_core.decoder.positions import PassLayout, PositionIndex
from mars_core.decoder.quantised.layers import CompiledLayers, compilable

if TYPE_CHECKING:
    from mars_core.decoder.fused import Fused


class LayerStack:
    """Layers of one shape. ``rotary``: one of transformers' modules; ``window``: of the windowed
    layers. ``fused``: what computes them with ``PassShapes.kernels``: in C those of packed weights,
    else kernels of Triton; None where neither does."""

    fused: Fused | CompiledLayers | None = None

    def __init__(
        self,
        layers: Sequence[FastLayer],
        rotary: Any,
        window: int | None,
        size: CacheSize,
        like: Tensor,
    ) -> None:
        cores, kernels = [layer.core for layer in layers], size.shapes.kernels
        heads, slots, capacity = cores[0].heads, size.slots, size.capacity
        kinds = {layer.rotary for layer in layers}
        self._tables = {kind: _rotary_table(rotary, size, like, kind) for kind in kinds}
        self._turned = dict[str | None, Rotary]()  # of each kind, at the positions of the pass
        self._layers = [
            PlacedLayer(layer, self._tables[layer.rotary], window if layer.windowed else None)
            for layer in layers
        ]
        self.store = Store(len(layers), heads, slots, capacity, like)
        if kernels and all(map(compilable, cores)):
            self.fused = CompiledLayers(self.store, self._layers)
        elif kernels and all(core.fusable for core in cores):
            from mars_core.decoder.fused import Fused  # imports Triton

            self.fused = Fused(self.store, self._layers)
        self.index = PositionIndex(
            capacity,
            like,
            slots=slots,
            group=heads.query // heads.key,
            window=window if any(layer.windowed for layer in layers) else None,
            step=size.shapes.width_step,
            trails=self.fused is not None,
        )

    def begin(self, layout: PassLayout) -> Fused | CompiledLayers | None:
        """Begin a pass; return what computes its layers in few calls, if anything does."""
        self.store.layout = layout
        if self.fused and layout.trail:
            self.fused.begin(layout)
            return self.fused
        self._turned = {kind: each.at(layout.positions) for kind, each in self._tables.items()}
        return None

    def through(self, at: int, x: Tensor, residual: Tensor) -> Tensor:
        """Return what a layer computes of x [A, n, R]; residual [A, n, H] may be overwritten."""
        if self.fused and self.store.layout.trail:
            return self.fused.through(at, x, residual)
        layer, _, window = self._layers[at]
        attention = partial(self.store.attend, layer=at, windowed=window is not None)
        turned = self._turned[layer.rotary]
        return layer.core.forward(layer.normed(x), residual, turned, attention)


def _rotary_table(module: Any, size: CacheSize, like: Tensor, kind: str | None) -> Rotary:
    """Rotary positions of a cache, in the dtype and on the device of ``like``; ``kind``: see
    ``FastLayer``. Positions after the longest text repeat its last one: some rotary scalings change
    when a position beyond the context is requested."""
    positions = torch.arange(size.capacity, device=like.device).clamp(max=size.tokens - 1)
    turns = rotary_of(module, like[:1, None], positions[None], kind)
    return Rotary.of(*turns, like, still=kind is None)
