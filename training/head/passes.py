"""The target's passes while texts are written: one token a row, each row at a separate position.

Shapes: B rows, L positions of the cache, W values of a position (the read layers' inputs and the
last hidden state).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.capture import Captured
from mars_core.decoder import CacheSize, PassShapes, open_cache
from mars_core.decoder.positions import Rows


def head_size(target: PreTrainedModel) -> int:
    """Return the width of an attention head."""
    config: Any = target.config
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


def cell_bytes(target: PreTrainedModel, feature_layers: tuple[int, ...]) -> int:
    """Memory of a position of a row: keys, values and W."""
    config: Any = target.config
    keys = 2 * config.num_hidden_layers * config.num_key_value_heads * head_size(target)
    width = (len(feature_layers) + 1) * config.hidden_size
    return int((keys + width) * target.dtype.itemsize)


class RowPasses:
    """Passes of B rows; on a GPU a replayed graph. Before one, ``ids`` and ``at`` [B] are set to
    the rows' tokens and their positions, in place; it fills ``values`` [B, L, W] there."""

    def __init__(
        self, target: PreTrainedModel, feature_layers: tuple[int, ...], rows: int, length: int
    ) -> None:
        device = target.device
        self.ids = torch.zeros(rows, dtype=torch.long, device=device)
        self.at, self._rows = torch.zeros_like(self.ids), torch.arange(rows, device=device)
        self._texts = Rows(range(rows), None, self.at)
        size = CacheSize(length, 1, PassShapes(most_rows=rows), full_width=True, slots=rows)
        taps = (*feature_layers, target.config.num_hidden_layers)
        self._cache = open_cache(target, size, taps)
        self.values = self._cache.features.new_zeros(rows, length, self._cache.features.shape[-1])
        #: One pass → logits [B, V], which the next one overwrites.
        self.run: Callable[[], Tensor] = (
            Captured(self._pass, device).replay if device.type == "cuda" else self._pass
        )

    @torch.inference_mode()
    def _pass(self) -> Tensor:
        logits = self._cache.chains(self.ids[:, None], self._texts, 1)
        self.values[self._rows, self.at] = self._cache.features[:, 0]
        return logits[:, 0]
