"""The numbers of GGUF's blocks: levels, scales and minimums where a product keeps these, plain
numbers of every kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import gguf
import torch
from gguf import GGMLQuantizationType as Kind
from torch import Tensor

from mars_core.decoder.quantised import Form, Levels

_FLOATS = {Kind.F32: torch.float32, Kind.F16: torch.float16, Kind.BF16: torch.bfloat16}


class _Parts(NamedTuple):
    """Of blocks [..., bytes]."""

    levels: Tensor  # uint8 [..., numbers]
    scales: Tensor  # float32 [..., scales of a block]
    minimums: Tensor | None = None


def levels_of(kind: Kind, rows: Tensor) -> Levels:
    """Return the levels of ``rows``, uint8 [n, bytes], of a kind in ``FORMS``."""
    form, read = FORMS[kind], _READERS[kind]
    levels, scales, minimums = read(rows.unflatten(1, (-1, gguf.GGML_QUANT_SIZES[kind][1])))
    low = None if minimums is None else minimums.flatten(1)
    return Levels(form, levels.flatten(1), scales.flatten(1), low)


def numbers_of(kind: Kind, rows: Tensor) -> Tensor:
    """Return the numbers of ``rows``, uint8 [n, bytes], in float32 [n, columns]."""
    if kind in _FLOATS:
        return rows.view(_FLOATS[kind]).float()
    if kind in FORMS:
        return levels_of(kind, rows).numbers()
    return torch.from_numpy(gguf.quants.dequantize(rows.numpy(), kind))


def _halves(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float16).float()


def _nibbles(pairs: Tensor) -> Tensor:
    """Return the low halves of the bytes, then the high ones."""
    return torch.cat((pairs & 15, pairs >> 4), -1)


def _bits(data: Tensor) -> Tensor:
    """Return the bits of bytes [..., n], the lowest first, uint8 [..., 8 · n]."""
    return (data[..., None] >> torch.arange(8, dtype=torch.uint8) & 1).flatten(-2)


def _q4(blocks: Tensor) -> _Parts:
    factors = _halves(blocks[..., :-16])
    minimums = factors[..., 1:] if factors.shape[-1] > 1 else None
    return _Parts(_nibbles(blocks[..., -16:]), factors[..., :1], minimums)


def _q5(blocks: Tensor) -> _Parts:
    parts = _q4(torch.cat((blocks[..., :-20], blocks[..., -16:]), -1))
    return parts._replace(levels=parts.levels | _bits(blocks[..., -20:-16]) << 4)


def _q8(blocks: Tensor) -> _Parts:
    return _Parts(blocks[..., 2:] ^ 128, _halves(blocks[..., :2]))


def _factors(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the 8 scales and minimums of a large block."""
    scale, low = _halves(blocks[..., :4]).split(1, -1)
    first, second, third = blocks[..., 4:16].split(4, -1)
    scales = torch.cat((first & 63, third & 15 | first >> 6 << 4), -1)
    minimums = torch.cat((second & 63, third >> 4 | second >> 6 << 4), -1)
    return scale * scales, -(low * minimums)


def _q4_k(blocks: Tensor) -> _Parts:
    levels = _nibbles(blocks[..., 16:].unflatten(-1, (4, 32))).flatten(-2)
    return _Parts(levels, *_factors(blocks))


def _q5_k(blocks: Tensor) -> _Parts:
    levels = _nibbles(blocks[..., 48:].unflatten(-1, (4, 32))).flatten(-2)
    high = blocks[..., None, 16:48] >> torch.arange(8, dtype=torch.uint8)[:, None] & 1
    return _Parts(levels | high.flatten(-2) << 4, *_factors(blocks))


def _q6_k(blocks: Tensor) -> _Parts:
    low, high, scales, scale = blocks.split((128, 64, 16, 2), -1)
    levels = torch.stack([low.unflatten(-1, (2, 64)) >> shift & 15 for shift in (0, 4)], -2)
    upper = [high.unflatten(-1, (2, 32)) >> shift & 3 for shift in (0, 2, 4, 6)]
    levels = levels.flatten(-3) | torch.stack(upper, -2).flatten(-3) << 4
    return _Parts(levels, _halves(scale) * scales.contiguous().view(torch.int8))


FORMS = {
    Kind.Q4_0: Form(4, 32, 8, 0),
    Kind.Q4_1: Form(4, 32, 0, 1),
    Kind.Q5_0: Form(5, 32, 16, 0),
    Kind.Q5_1: Form(5, 32, 0, 1),
    Kind.Q8_0: Form(8, 32, 128, 0),
    Kind.Q4_K: Form(4, 32, 0, 1),
    Kind.Q5_K: Form(5, 32, 0, 1),
    Kind.Q6_K: Form(6, 16, 32, 0),
}
_READERS: dict[Kind, Callable[[Tensor], _Parts]] = {
    Kind.Q4_0: _q4,
    Kind.Q4_1: _q4,
    Kind.Q5_0: _q5,
    Kind.Q5_1: _q5,
    Kind.Q8_0: _q8,
    Kind.Q4_K: _q4_k,
    Kind.Q5_K: _q5_k,
    Kind.Q6_K: _q6_k,
}
