"""Attention of a pass: scores, which may be capped, and values by their weight."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

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
