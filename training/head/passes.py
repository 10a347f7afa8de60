"""The target's passes while texts are written: one token a row, each row at a separate position.

Shapes: B rows, L positions of the cache, W values of a position (the read layers' inputs and the
last hidden state).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from mars_core.capture import Captured


def cell_bytes(target: PreTrainedModel, feature_layers: tuple[int, ...]) -> int:
    """Memory of a position of a row: keys, values and W."""
    config: Any = target.config
    attention: Any = target.get_decoder().layers[-1].self_attn
    keys = 2 * config.num_hidden_layers * config.num_key_value_heads * attention.head_dim
    width = (len(feature_layers) + 1) * config.hidden_size
    return int((keys + width) * target.dtype.itemsize)


class RowPasses:
    """Passes of B rows; on a GPU a replayed graph. Before one, ``ids`` and ``at`` [B] are set to
    the rows' tokens and their positions, in place; it fills ``values`` [B, L, W] there."""

    def __init__(
        self, target: PreTrainedModel, feature_layers: tuple[int, ...], rows: int, length: int
    ) -> None:
        self._target, self._taps = target, (*feature_layers, -1)
        self.ids = torch.zeros(rows, dtype=torch.long, device=target.device)
        self.at = torch.zeros_like(self.ids)
        self.values = torch.zeros(
            rows,
            length,
            len(self._taps) * target.config.hidden_size,
            dtype=target.dtype,
            device=target.device,
        )
        self._cache = _RowCache(rows, length)
        on_cuda = target.device.type == "cuda"
        #: One pass → logits [B, V], which the next one overwrites.
        self.run: Callable[[], Tensor] = (
            Captured(self._pass, target.device).replay if on_cuda else self._pass
        )

    @torch.inference_mode()
    def _pass(self) -> Tensor:
        output: Any = self._target(
            input_ids=self.ids[:, None],
            position_ids=self.at[:, None],
            attention_mask=self._cache.move(self.at).to(self.values.dtype),
            past_key_values=self._cache,
            use_cache=True,
            output_hidden_states=True,
        )
        states = [output.hidden_states[tap] for tap in self._taps]
        self.values[self._cache.rows, self.at] = torch.cat(states, -1)[:, 0]
        logits: Tensor = output.logits[:, 0]
        return logits


@dataclass(slots=True)
class _RowCache:
    """Keys and values [B, heads, L, d] of each layer, of rows that stand at positions of their
    own."""

    count: int
    length: int
    layers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    is_compileable: bool = False
    at: Tensor = field(default_factory=lambda: torch.zeros(0))
    rows: Tensor = field(default_factory=lambda: torch.zeros(0))

    def move(self, at: Tensor) -> Tensor:
        """Rows are now at positions ``at`` [B] → what is added to scores [B, 1, 1, L]: −∞ at
        positions that they do not see."""
        self.at, self.rows = at, torch.arange(self.count, device=at.device)
        later = torch.arange(self.length, device=at.device) > at[:, None]
        unseen = torch.zeros_like(later, dtype=torch.float32).masked_fill_(later, float("-inf"))
        return unseen[:, None, None]

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        if layer not in self.layers:
            heads, size = key.shape[1], key.shape[3]
            self.layers[layer] = tuple(key.new_zeros(2, self.count, heads, self.length, size))
        keys, values = self.layers[layer]
        keys[self.rows, :, self.at] = key[:, :, 0]
        values[self.rows, :, self.at] = value[:, :, 0]
        return keys, values  # in full: a product of a part of each row would copy it

    def get_seq_length(self, _layer: int = 0) -> int:
        return self.length


def _attend(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """query [B, heads, 1, d] over key and value [B, kv, L, d], queries of a key head together: no
    copy of the keys."""
    grouped = query.view(len(query), key.shape[1], -1, query.shape[-1]) * scaling
    scores = (grouped @ key.transpose(-1, -2)).add_(mask)
    shares = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    return (shares @ value).view(len(query), 1, -1, value.shape[-1]), None


ATTENTION = "rows"  # for attn_implementation
AttentionInterface.register(ATTENTION, _attend)
