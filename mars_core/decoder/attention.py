"""Attention of a pass: scores, which may be capped, and values by their weight; and the keys and values
of the texts of a cache, allocated once, of which a pass reads and writes the positions of its layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mars_core.decoder.positions import PassLayout

# Attention sums fewer rows in another order: blocks of them on a CPU, of more rows for larger heads,
# a single one on a GPU.
_ROWS = {"cpu": 4, "cuda": 2}
_SIZE_OF_ROW = 16  # of a head, on a CPU: heads of 256 are summed alike from 16 rows on
_FOLDS = {"cpu"}  # where copying queries is cheaper than reading the keys once for every token


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads, key/value heads, size of a head, and the factor of attention scores. ``cap``: of
    scores, see ``capped``."""

    query: int
    key: int
    size: int
    scale: float
    cap: float | None = None


def capped(x: Tensor, cap: float | None) -> Tensor:
    """Return x, kept softly within ± ``cap``."""
    return x if cap is None else (x / cap).tanh_().mul_(cap)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, heads: Heads
) -> Tensor:
    """queries [B, n, query heads, d]; keys, values [B, key heads, w, d] → [B, n, query heads · d].
    mask: additive or, without a cap, bool, [.., n, w]; additive [.., n · G, w] with each row G =
    query/key heads times; None: all before."""
    batch, n, *_ = queries.shape
    attention, group = nn.functional.scaled_dot_product_attention, heads.query // heads.key
    if heads.cap is not None:
        mask = _repeated(mask, n, group, keys)
    if mask is None or mask.shape[-2] != n * group:
        mixed = attention(
            queries.transpose(1, 2),
            keys,
            values,
            attn_mask=mask,
            is_causal=mask is None and n > 1,
            scale=heads.scale,
            enable_gqa=group > 1,
        )
        return mixed.transpose(1, 2).reshape(batch, n, -1)
    # The query heads that share a key head become rows: keys are not repeated, and every kernel
    # supports it. Without a copy each token is a text of its own.
    split, step = queries.unflatten(2, (heads.key, group)), _ROWS.get(queries.device.type, 1)
    if folds := queries.device.type in _FOLDS:
        step = max(step, heads.size // _SIZE_OF_ROW)
    if alone := batch == 1 < group and not folds and heads.cap is None:
        rows, mask = split[0], mask.view(n, 1, group, -1)
        keys, values = keys.expand(n, -1, -1, -1), values.expand(n, -1, -1, -1)
    else:
        rows = split.transpose(1, 2).reshape(batch, heads.key, n * group, heads.size)
    count = rows.shape[2]
    if missing := -count % step:
        rows, mask = (nn.functional.pad(each, (0, 0, 0, missing)) for each in (rows, mask))
    if heads.cap is not None:  # no kernel caps scores, but all add a mask to those of queries of 0
        scores = capped((rows @ keys.mT).float() * heads.scale, heads.cap)
        rows, mask = torch.zeros_like(rows), torch.where(mask == 0, scores.to(mask.dtype), mask)
    mixed = attention(rows, keys, values, attn_mask=mask, scale=heads.scale)[:, :, :count]
    if not alone:
        mixed = mixed.unflatten(2, (n, group)).transpose(1, 2)
    return mixed.reshape(batch, n, -1)


def _repeated(mask: Tensor | None, n: int, group: int, keys: Tensor) -> Tensor:
    """Return the mask of n tokens as an additive one [.., n · G, w]."""
    width = keys.shape[-2]
    if mask is None:
        hidden = torch.full((n, width), torch.finfo(keys.dtype).min).triu(1 + width - n)
        mask = hidden.to(keys)
    return mask if mask.shape[-2] == n * group else mask.repeat_interleave(group, -2)


class Store:
    """One tensor for all layers of one shape: [layers, 2 · key heads, slots · capacity, d], keys
    before values, with the dtype and on the device of ``like``."""

    layout: PassLayout  # of the current pass

    def __init__(self, layers: int, heads: Heads, slots: int, capacity: int, like: Tensor) -> None:
        self._heads = heads
        self._all = like.new_zeros(layers, 2 * heads.key, slots * capacity, heads.size)
        # of each layer, the second keys and values [slots, key heads, capacity, d]
        self.entries = [*self._all]
        by_slot = self._all.unflatten(2, (slots, capacity)).transpose(1, 2)
        self._texts = [layer.chunk(2, 1) for layer in by_slot]

    def attend(self, queries: Tensor, stored: Tensor, layer: int, windowed: bool) -> Tensor:
        """Store keys and values [A, n, 2 · key heads, d] of the pass's tokens; queries [A, n,
        query heads, d] → what they attend to, [A, n, query heads · d]."""
        layout = self.layout
        self.entries[layer].index_copy_(1, layout.entries, stored.flatten(0, 1).transpose(0, 1))
        mixed = []
        for each in layout.segments:
            mask = each.windowed if windowed else each.full
            keys, values = (part[each.slots, :, : each.width] for part in self._texts[layer])
            mixed.append(attend(queries[each.region], keys, values, mask, self._heads))
        if len(mixed) == 1:
            return mixed[0]
        together = mixed[0].new_empty(*queries.shape[:2], mixed[0].shape[-1])
        for each, part in zip(layout.segments, mixed, strict=True):
            together[each.region] = part
        return together

    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copy entries as of ``ModelCache.move``."""
        self._all.index_copy_(-2, slots, self._all.index_select(-2, rows))
