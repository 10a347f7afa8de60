"""Whole layers of quantised weights in one call each, by ``layers.c``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import GELUTanh, SiLUActivation

from mars_core.decoder.attention import Store
from mars_core.decoder.layer import Core, Norm, PlacedLayer
from mars_core.decoder.linear import QuantisedLinear
from mars_core.decoder.positions import PassLayout
from mars_core.decoder.quantised.library import (
    LayerStruct,
    NormStruct,
    PartStruct,
    PassStruct,
    ProductStruct,
    library,
)
from mars_core.decoder.quantised.weights import Packed

_LANES = 16


def compilable(core: Core) -> bool:
    """Return whether ``layers.c`` computes a layer: all weights packed, the norms of Llama's,
    Gemma's and Qwen's layers, SiLU or the approximate GELU, scores without a cap."""
    norms = (core.norm, core.head_norm, core.after_attention, core.after_feed)
    activation = isinstance(core.activation, nn.SiLU | SiLUActivation) or _is_gelu(core)
    whole = core.heads.size % _LANES == 0 and core.heads.cap is None
    return (
        activation and whole and all(map(_has_norm, norms)) and all(map(_packed, _products(core)))
    )


def _products(core: Core) -> tuple[nn.Module, ...]:
    return core.qkv, core.output, core.up, core.down


def _packed(layer: nn.Module) -> bool:
    return isinstance(layer, QuantisedLinear) and all(
        isinstance(each, Packed) for each in layer.weights
    )


def _has_norm(norm: object) -> bool:
    return norm is None or isinstance(norm, Norm)


def _is_gelu(core: Core) -> bool:
    return isinstance(core.activation, GELUTanh)


class CompiledLayers:
    """The layers of a cache whose keys and values are in ``store``; all are ``compilable``. As
    ``decoder.fused.Fused``, for a CPU."""

    _pass: PassStruct  # the current one
    _read: Sequence[Tensor]  # what it points to

    def __init__(self, store: Store, layers: Sequence[PlacedLayer]) -> None:
        self._library, self._length = library(), store.entries[0].shape[1]
        self._outputs: dict[int, tuple[ProductStruct, NormStruct]] = {}
        self._held: list[Any] = []  # what structures point to
        self._layers = [*map(self._structure, layers, store.entries)]

    def begin(self, layout: PassLayout) -> None:
        """Begin a pass with this layout, which has a trail. Raises IndexError for a position outside
        of the cache: C would write there."""
        assert layout.trail is not None, "of a step"
        if max(int(each.max()) for each in (layout.entries, layout.positions)) >= self._length:
            raise IndexError(f"A step writes beyond the {self._length} positions of the cache.")
        numbers = (layout.positions, layout.entries, *layout.trail)
        self._read = [each.contiguous() for each in numbers]
        pointers = (each.data_ptr() for each in self._read)
        reach = layout.trail.places.shape[-1]
        self._pass = PassStruct(layout.positions.numel(), reach, *pointers)

    def through(self, at: int, x: Tensor, residual: Tensor) -> Tensor:
        """Return what a layer computes of x [A, n, R]. residual [A, n, H] is overwritten."""
        assert x.is_contiguous() and residual.is_contiguous(), "C reads them row by row"
        of_layer, addresses = self._layers[at], (x.data_ptr(), residual.data_ptr())
        _done(self._library.mars_layer(of_layer, self._pass, *addresses, torch.get_num_threads()))
        return residual

    def product(
        self, x: Tensor, layer: nn.Module, norm: Norm, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return the product of x [.., K], normed, and the weight [N, K] of an output layer, with
        its bias."""
        if not isinstance(layer, QuantisedLinear) or not _packed(layer):
            return layer(norm(x)).to(dtype)  # type: ignore[no-any-return]
        if id(layer) not in self._outputs:
            self._outputs[id(layer)] = self._product(layer), self._norm(norm)
        by, normed = self._outputs[id(layer)]
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], layer.out_features)
        rows, threads = x.numel() // x.shape[-1], torch.get_num_threads()
        _done(self._library.mars_output(by, normed, x.data_ptr(), rows, y.data_ptr(), threads))
        return y.to(dtype)

    def _structure(self, placed: PlacedLayer, cache: Tensor) -> LayerStruct:
        core, rotary, heads = placed.layer.core, placed.rotary, placed.layer.core.heads
        cos, sin = (self._pointer(each) for each in rotary)
        norms = (
            placed.layer.norm,
            core.after_attention,
            core.norm,
            core.after_feed,
            core.head_norm,
        )
        return LayerStruct(
            *map(self._product, _products(core)),
            *map(self._norm, norms),
            cos,
            sin,
            self._pointer(cache),
            heads.query,
            heads.key,
            heads.size,
            rotary.cos.shape[-1],
            cache.shape[1],
            placed.window or 0,
            _is_gelu(core),
            heads.scale,
        )

    def _product(self, layer: Any) -> ProductStruct:
        parts = [
            PartStruct(each.data.data_ptr(), each.rows, each.form_struct) for each in layer.weights
        ]
        array = (PartStruct * len(parts))(*parts)
        self._held.append((layer, array))
        columns = layer.weights[0].columns
        bias = None if layer.bias is None else self._pointer(layer.bias.float())
        return ProductStruct(array, len(parts), columns, layer.out_features, bias)

    def _norm(self, norm: Any) -> NormStruct:
        return (
            NormStruct(None, 0.0)
            if norm is None
            else NormStruct(self._pointer(norm.gain.float()), norm.eps)
        )

    def _pointer(self, numbers: Tensor) -> int:
        """Return the address of numbers, which are held from here on."""
        self._held.append(kept := numbers.contiguous())
        return kept.data_ptr()


def _done(failed: int) -> None:
    if failed:
        raise MemoryError("There is not enough memory for a layer.")
