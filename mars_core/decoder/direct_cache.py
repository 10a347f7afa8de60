"""The cache over fast layers: one pass is embedding, layers, norm and output, and nothing between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder.cache import ModelCache, input_embedding
from mars_core.decoder.layer import FastLayer, Rotary
from mars_core.decoder.spans import DeviceRuler, HostRuler, Lines, Ruler, Span
from mars_core.decoder.store import Store


def is_direct(model: PreTrainedModel) -> bool:
    """Whether ``prepare`` gave the model fast layers."""
    layers: Any = getattr(model.get_decoder(), "layers", None)
    return bool(layers) and isinstance(layers[0], FastLayer)


class DirectCache(ModelCache):
    """For a model of the Llama family with fast layers."""

    path = "fast layers, eager"

    def __init__(self, model: PreTrainedModel, tokens: int, nodes: int, taps: Sequence[int]) -> None:
        super().__init__(model, taps)
        self.nodes = nodes
        decoder: Any = model.get_decoder()
        self._layers: list[FastLayer] = list(decoder.layers)
        self._embedding, self._norm = input_embedding(model).weight, decoder.norm
        self._output: Any = model.get_output_embeddings()
        heads, config = self._layers[0].core.heads, model.config
        kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * len(self._layers)
        window = getattr(config, "sliding_window", None)
        self._windowed = [window is not None and kind == "sliding_attention" for kind in kinds]
        self.lines = Lines(
            rotary_table(decoder.rotary_emb, tokens, nodes + 1, self._embedding),
            heads.query // heads.key,
            window if any(self._windowed) else None,
        )
        self.ruler: Ruler = HostRuler(self.lines)
        capacity = self.lines.capacity
        self._store = Store(len(self._layers), heads.key, capacity, heads.size, self._embedding.dtype, self.device)

    @cached_property
    def fixed_features(self) -> Tensor:
        """Where the features of fixed passes are written, [nodes + 1, taps · H]."""
        return self._embedding.new_zeros(self.nodes + 1, len(self._taps) * self._embedding.shape[1])

    def move_to(self, rows: Tensor, slots: Tensor) -> None:
        """Copies the rows [n] of the cache to ``slots`` [n]."""
        self._store.move_to(rows, slots)

    def _pass(self, ids: Tensor, tree: tuple[Tensor, Tensor] | None, logits: int) -> Tensor:
        span = self.ruler.chain(self.length, len(ids)) if tree is None else self.ruler.tree(self.length, *tree)
        hidden = self._through_layers(nn.functional.embedding(ids, self._embedding)[None], span)
        self.length += len(ids)
        rows: Tensor = self._output(self._norm(hidden[:, -logits:]))[0]
        return rows.float()

    def _through_layers(self, hidden: Tensor, span: Span) -> Tensor:
        """hidden [1, n, H] → [1, n, H]."""
        self._store.span = span
        tapped = {}
        for number, (layer, windowed) in enumerate(zip(self._layers, self._windowed, strict=True)):
            if number in self._taps:
                tapped[number] = hidden[0]
            hidden = layer.step(hidden, span.rotary, span.windowed if windowed else span.full, self._store)
        if self._taps:
            features = torch.cat([tapped[tap] for tap in self._taps], -1)
            inside = isinstance(self.ruler, DeviceRuler)
            self.features = self.fixed_features[: len(features)].copy_(features) if inside else features
        return hidden

    def _crop(self, count: int) -> None:
        """What stands behind ``length`` is never looked at."""

    def move(self, path: Sequence[int], start: int) -> None:
        self._store.move(torch.tensor(path, device=self.device) + start, start)


def rotary_table(module: Any, tokens: int, spare: int, like: Tensor) -> Rotary:
    """Rotary positions 0 … tokens − 1 from one of transformers' rotary modules, in the dtype and on the device of ``like``, and
    ``spare`` rows that no token has (some scalings change where a position beyond the context is asked for)."""
    positions = torch.arange(tokens + spare, device=like.device).clamp(max=tokens - 1)
    return Rotary.of(*module(like[:1, None], positions[None]))
