"""Layers by the kernels of ``decoder/kernels.py``, which are imported here:
where Triton is."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from triton import cdiv, next_power_of_2

from mars_core.decoder import kernels
from mars_core.decoder.attention import Store
from mars_core.decoder.kernels import COLUMNS, HEADS, SPAN, STEP
from mars_core.decoder.layer import Norm, PlacedLayer
from mars_core.decoder.positions import PassLayout

_PROGRAMS, _LEAST = 256, 512  # of a product about as many at least, with so much of K each
_COUNTS = 2**15  # tiles of a product of several programs, or tokens times key heads


class Fused:
    """The layers of a cache whose keys and values are in ``store``; all are ``fusable``."""

    _layout: PassLayout  # of the current pass

    def __init__(self, store: Store, layers: Sequence[PlacedLayer]) -> None:
        self._store, self._layers, device = store, layers, layers[0].rotary.cos.device
        self._counts = torch.zeros(_COUNTS, dtype=torch.int32, device=device)

    def begin(self, layout: PassLayout) -> None:
        """Begin a pass with this layout, which has a trail."""
        self._layout = layout

    def through(self, at: int, x: Tensor, residual: Tensor) -> Tensor:
        """Return what a layer computes of x [A, n, R]. residual [A, n, H] is overwritten."""
        layer = self._layers[at].layer
        core = layer.core
        mixed = self._attended(at, self.product(x, core.qkv, layer.norm))
        self.product(mixed, core.output, to=residual)
        inner = self.product(residual, core.up, core.norm, gated=True)
        return self.product(inner, core.down, to=residual)

    def _attended(self, at: int, qkv: Tensor) -> Tensor:
        """Return the values [A, n, query heads · d] that the tokens of qkv attend to."""
        (layer, (cos, sin), window), layout = self._layers[at], self._layout
        heads, norm, cache = layer.core.heads, layer.core.head_norm, self._store.entries[at]
        assert layout.trail is not None, "of a step"
        roots, bases, places = layout.trail
        positions, count, length = layout.positions.flatten(), len(roots), cache.shape[1]
        sizes = dict(queries=heads.query, keys=heads.key, d=heads.size)
        width = max(16, next_power_of_2(heads.size))
        kernels.turn[count, cdiv(heads.query + 2 * heads.key, HEADS.value)](
            qkv,
            norm and norm.gain,
            cos,
            sin,
            positions,
            layout.entries,
            cache,
            length,
            norm.eps if norm else 0.0,
            **sizes,
            turned=cos.shape[-1],
            width=width,
            num_warps=4,
        )
        group, programs = heads.query // heads.key, cdiv(cos.shape[1], SPAN.value)
        mixed = qkv.new_empty(*qkv.shape[:-1], heads.query * heads.size)
        partial = count, heads.key, programs, group
        kernels.attend[count, heads.key, programs](
            qkv,
            cache,
            positions,
            roots,
            bases,
            places,
            mixed,
            qkv.new_empty(*partial, heads.size, dtype=torch.float32),
            qkv.new_empty(*partial, 2, dtype=torch.float32),
            self._counts,
            places.shape[-1],
            length,
            window or length,
            heads.scale,
            **sizes,
            rows=max(16, next_power_of_2(group)),
            width=width,
            num_warps=4,
            num_stages=2,
        )
        return mixed

    def product(
        self,
        x: Tensor,
        layer: nn.Linear,
        norm: Norm | None = None,
        *,
        to: Tensor | None = None,
        gated: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Return the product of x [.., K] and the layer's weight [N, K], after ``norm`` and plus its
        bias, in ``dtype``; added to ``to`` [.., N], which is overwritten. ``gated``: of layer [2N,
        K] as in ``Core``."""
        (wide, deep), rows = layer.weight.shape, x.numel() // x.shape[-1]
        size = wide // 2 if gated else wide
        out = x.new_empty(*x.shape[:-1], size, dtype=dtype) if to is None else to
        tiles, span = cdiv(size, COLUMNS.value), deep
        if norm is None and not gated:
            span = cdiv(deep, max(1, min(_PROGRAMS // tiles, deep // _LEAST)))
        span = cdiv(span, STEP.value) * STEP.value
        pieces = cdiv(deep, span)
        parts = x.new_empty(pieces, rows, size, dtype=torch.float32) if pieces > 1 else None
        kernels.linear[cdiv(rows, 16), tiles, pieces](
            x.contiguous(),
            norm and norm.gain,
            layer.weight,
            layer.bias,
            out,
            parts,
            self._counts,
            rows,
            size,
            deep,
            span,
            norm.eps if norm else 0.0,
            gated=gated,
            added=to is not None,
            num_warps=4,
            num_stages=4,
        )
        return out
