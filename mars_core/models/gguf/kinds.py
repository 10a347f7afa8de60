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

from mars_core.decoder.quantised.library import Form
from mars_core.decoder.quantised.weights import Levels

_FLOATS = {Kind.F32: torch.float32, Kind.F16: torch.float16, Kind.BF16: torch.bfloat16}


class _Parts(NamedTuple):
    """Of blocks [..., bytes]."""

    levels: Tensor  # uint8 [..., numbers]
    scales: Tensor  # float32 [..., scales of a block]
    minimums: Tensor | None = None


def levels_of(kind: Kind, rows: Tensor) -> Levels:
    """Return the levels of ``rows``, uint8 [n, bytes], of a kind in ``FORMS``."""
    form, read = _LAYOUTS[kind]
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


def _words(data: Tensor) -> Tensor:
    """Return bytes [..., 8 · n] as int64 [..., n], whose operations are on eight bytes at once."""
    return data.contiguous().view(torch.int64)


def _bytes(words: Tensor) -> Tensor:
    """Return what ``_words`` was given."""
    return words.contiguous().view(torch.uint8)


def _each(byte: int) -> int:
    """Return a word with this value in every byte."""
    return byte * 0x0101010101010101


def _nibbles(pairs: Tensor) -> Tensor:
    """Return the low halves of the bytes, then the high ones, all as words."""
    words = _words(pairs)
    return torch.cat((words & _each(15), words >> 4 & _each(15)), -1)


def _q4(blocks: Tensor) -> _Parts:
    factors = _halves(blocks[..., :-16])
    minimums = factors[..., 1:] if factors.shape[-1] > 1 else None
    return _Parts(_bytes(_nibbles(blocks[..., -16:])), factors[..., :1], minimums)


def _q5(blocks: Tensor) -> _Parts:
    fifth = _FIFTH.index_select(0, blocks[..., -20:-16].flatten().int())
    levels = _nibbles(blocks[..., -16:]) | fifth.unflatten(0, (*blocks.shape[:-1], 4))
    factors = _halves(blocks[..., :-20])
    minimums = factors[..., 1:] if factors.shape[-1] > 1 else None
    return _Parts(_bytes(levels), factors[..., :1], minimums)


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
    return _Parts(_bytes(levels), *_factors(blocks))


def _q5_k(blocks: Tensor) -> _Parts:
    levels = _nibbles(blocks[..., 48:].unflatten(-1, (4, 32))).flatten(-2)
    fifth = _words(blocks[..., 16:48])[..., None, :] >> torch.arange(8)[:, None] & _each(1)
    return _Parts(_bytes(levels | fifth.flatten(-2) << 4), *_factors(blocks))


def _q6_k(blocks: Tensor) -> _Parts:
    low, high, scales, scale = blocks.split((128, 64, 16, 2), -1)
    halves = _words(low).unflatten(-1, (2, 1, 8)) >> torch.tensor([0, 4])[:, None] & _each(15)
    upper = _words(high).unflatten(-1, (2, 1, 4)) >> torch.arange(0, 8, 2)[:, None] & _each(3)
    levels = _bytes(halves.flatten(-3) | upper.flatten(-3) << 4)
    return _Parts(levels, _halves(scale) * scales.contiguous().view(torch.int8))


# Of a byte: its bits, from the lowest, as the fifth bits of the eight bytes of a word.
_FIFTH = (torch.arange(256)[:, None] >> torch.arange(8) & 1).mul(16).byte().view(torch.int64)[:, 0]

_LAYOUTS: dict[Kind, tuple[Form, Callable[[Tensor], _Parts]]] = {
    Kind.Q4_0: (Form(4, 32, 8, 0), _q4),
    Kind.Q4_1: (Form(4, 32, 0, 1), _q4),
    Kind.Q5_0: (Form(5, 32, 16, 0), _q5),
    Kind.Q5_1: (Form(5, 32, 0, 1), _q5),
    Kind.Q8_0: (Form(8, 32, 128, 0), _q8),
    Kind.Q4_K: (Form(4, 32, 0, 1), _q4_k),
    Kind.Q5_K: (Form(5, 32, 0, 1), _q5_k),
    Kind.Q6_K: (Form(6, 16, 32, 0), _q6_k),
}
FORMS = {kind: form for kind, (form, _) in _LAYOUTS.items()}
