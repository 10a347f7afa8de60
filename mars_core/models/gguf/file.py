"""Reads GGUF files: numbers and texts of the header, and tensors by their rows.

The library gguf takes ten seconds for the vocabulary of a large model; this reader skips what it
does not need.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import gguf
import numpy as np
import torch
from torch import Tensor

from mars_core.decoder.quantised.library import lacks_products, multiplies_int4
from mars_core.models.errors import ModelError, brief
from mars_core.models.gguf.kinds import FORMS

TOKENS, EMBEDDING = "tokenizer.ggml.tokens", "token_embd.weight"
_PLAIN = ("F32", "F16", "BF16")
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_LONGEST = 2**26  # bytes of a text
_DIMENSIONS = 8
_FEW = 4096  # entries of a list that describes a model
_AT_ONCE = 2**20  # numbers of a tensor
_DAMAGE = (OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError, struct.error)


class Stored(NamedTuple):
    """A tensor of a file."""

    path: Path
    kind: gguf.GGMLQuantizationType
    shape: tuple[int, ...]
    begin: int  # in the file

    @property
    def rows(self) -> int:
        """Rows of the last dimension."""
        return math.prod(self.shape[:-1])

    @property
    def row_bytes(self) -> int:
        numbers, size = gguf.GGML_QUANT_SIZES[self.kind]
        return self.shape[-1] // numbers * size

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    def read(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Return the rows [start, stop) as they are in the file, uint8 [n, bytes]."""
        count = (self.rows if stop is None else stop) - start
        part = np.fromfile(
            self.path, np.uint8, count * self.row_bytes, offset=self.begin + start * self.row_bytes
        )
        return torch.from_numpy(part).view(count, self.row_bytes)

    def parts(self) -> Iterator[tuple[int, int]]:
        """Return the beginnings and ends of parts of some rows each, all but the last of a multiple
        of 16."""
        step = max(16, _AT_ONCE // self.shape[-1] // 16 * 16)
        return ((start, min(start + step, self.rows)) for start in range(0, self.rows, step))


class Header(NamedTuple):
    """What a file says of its model."""

    facts: Mapping[str, Any]  # lists as their lengths
    tokens: tuple[bytes, ...]
    tensors: Mapping[str, Stored]
    short: bytes  # the file's facts without its long lists, as they are stored
    pairs: int  # of these

    @property
    def architecture(self) -> str:
        return str(self.facts.get("general.architecture"))

    @property
    def parameters(self) -> int:
        return sum(math.prod(each.shape) for each in self.tensors.values())

    @property
    def halved(self) -> bool:
        """Whether bfloat16 holds its numbers: also quantised ones count as such."""
        return any(each.kind.name not in ("F32", "F16") for each in self.tensors.values())

    def lacks_levels(self) -> str:
        """Return why the weights cannot be used as they are; empty where they can."""
        kinds = {each.kind for each in self.tensors.values() if each.kind.name not in _PLAIN}
        if others := sorted(kind.name for kind in kinds - FORMS.keys()):
            return f"its file has tensors in {', '.join(others)}"
        if not kinds:
            return "its file has no quantised tensors"
        four = any(FORMS[kind].bits == 4 for kind in kinds)
        return "" if four and multiplies_int4() else lacks_products()

    def outline(self) -> bytes:
        """Return a small GGUF file with the same facts but for long lists, the size of the
        vocabulary, and tensors of the same names: libraries read it in no time."""
        table = self.tensors.get(EMBEDDING)
        size = table.shape[0] if table else 0
        token = _text(TOKENS) + struct.pack("<IIQ", _ARRAY, _STRING, 1) + _text("a")
        token += _text(f"{self.architecture}.vocab_size") + struct.pack("<II", 4, size)
        infos = b"".join(_text(name) + struct.pack("<IQIQ", 1, 1, 0, 0) for name in self.tensors)
        start = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), self.pairs + 2)
        whole = start + self.short + token + infos
        return whole + bytes(-len(whole) % 32 + 32)


def read_header(path: Path, name: str) -> Header:
    """Read the header of the file ``path`` of the model ``name``. Raises ModelError."""
    with _named(name):
        return _header(path)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the model whose file is damaged."""
    try:
        yield
    except _DAMAGE as error:
        raise ModelError(
            f"{name} is damaged, or no GGUF file ({brief(error)}): fetch it again."
        ) from error


def _header(path: Path) -> Header:
    facts, short, tokens, size = dict[str, Any](), list[bytes](), list[bytes](), path.stat().st_size
    with path.open("rb") as file:
        magic, version, count, pairs = _unpack(file, "4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError("it does not begin as one of version 2 or 3")
        for _ in range(pairs):
            begin = file.tell()
            key = _string(file).decode(errors="replace")
            (kind,) = _unpack(file, "I")
            facts[key] = _value(file, kind, tokens if key == TOKENS else None)
            end = file.tell()
            if end > size:
                raise ValueError("it ends too early")
            known = key in (TOKENS, "general.alignment") or key.endswith(".vocab_size")
            if not known and (kind != _ARRAY or facts[key] <= _FEW):
                file.seek(begin)
                short.append(file.read(end - begin))
        infos = [_info(file) for _ in range(count)]
        begin = file.tell()
    step = facts.get("general.alignment") or 32
    begin = -(-begin // step) * step
    tensors = {}
    for tensor, shape, kind, at in infos:
        stored = Stored(path, gguf.GGMLQuantizationType(kind), shape, begin + at)
        if shape[-1] % gguf.GGML_QUANT_SIZES[stored.kind][0]:
            raise ValueError(f"{tensor} ends within a block")
        if stored.begin + stored.bytes > size:
            raise ValueError("it ends too early")
        tensors[tensor] = stored
    return Header(facts, tuple(tokens), tensors, b"".join(short), len(short))


def _info(file: BinaryIO) -> tuple[str, tuple[int, ...], int, int]:
    name, (dimensions,) = _string(file).decode(), _unpack(file, "I")
    if not 0 < dimensions <= _DIMENSIONS:
        raise ValueError(f"{name} has {dimensions} dimensions")
    shape = _unpack(file, f"{dimensions}Q")[::-1]
    return name, shape, *_unpack(file, "IQ")


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _string(file: BinaryIO) -> bytes:
    (text,) = _strings(file, 1)
    return text


def _strings(file: BinaryIO, count: int) -> Iterator[bytes]:
    """Read so many strings. A vocabulary has some 300,000, so nothing is called for each but the
    file's own functions."""
    read, length_of = file.read, struct.Struct("<Q").unpack
    for _ in range(count):
        (length,) = length_of(read(8))
        if length > _LONGEST or len(text := read(length)) < length:
            raise ValueError("it ends too early")
        yield text


def _value(file: BinaryIO, kind: int, texts: list[bytes] | None = None) -> Any:
    """Return a value of the file's metadata, of a list its length. Its texts are added to
    ``texts``."""
    if kind in _SCALARS:
        return _unpack(file, _SCALARS[kind])[0]
    if kind == _STRING:
        return _string(file).decode(errors="replace")
    if kind != _ARRAY:
        raise ValueError(f"it has a value of kind {kind}")
    inner, count = _unpack(file, "IQ")
    if inner in _SCALARS:
        file.seek(count * struct.calcsize("<" + _SCALARS[inner]), 1)
    elif inner == _STRING:
        kept = deque[bytes](maxlen=0) if texts is None else texts
        kept.extend(_strings(file, count))
    else:
        raise ValueError(f"it has a list of kind {inner}")
    return count
