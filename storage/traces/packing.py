"""The steps of a run as bytes: one row of an Arrow record batch (its columns are lists), compressed with zstd. Lossless.

Numbers are stored in the smallest type that is exact for all: most were computed in float32. Columns that follow from others are left
out and computed when read (derived.py). Values that differ from the derived ones are stored: all differences for integers, for
others the differing values, with their indices in a column ``NAME@``. The target's values at a place (PLACE, TOP) are stored once, though
a rejected token and the one emitted instead both have them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from storage.traces.derived import DERIVED, Shape
from storage.traces.flat import ABSENT, NODE, STEP, TOKEN, Flat, places, starts

VERSION = 1  # of the format; added or removed columns do not change it
LEVEL, CRC = 3, 4  # of zstd; bytes of the checksum
PIECE = "vocabulary.piece"
PLACE = tuple(f"token.{name}" for name in ("z1", "z2", "entropy", "coin", "edge", "u"))
TOP = ("top.token", "top.p")
_ALWAYS = {"step": ("tokens", "nodes"), "token": ("token", "outcome"), "node": ("outcome",)}  # beside the numbers
_FIELDS: Mapping[str, Mapping[str, Any]] = {"step": STEP, "token": TOKEN, "node": NODE}
_KINDS = [(kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int8, np.int16, np.int32)]


def pack(flat: Flat) -> bytes:
    """``flat``: of one run."""
    shape = Shape(flat)
    kept = {name: column for name, column in flat.items() if not name.startswith("run.") and name not in DERIVED}
    for name, derive in DERIVED.items():
        kept |= _rest(name, flat[name], derive(flat, shape))
    if not shape.first.all():
        for name in PLACE:
            if name in kept and f"{name}@" not in kept:
                short = kept[name][shape.first]
                kept[name] = short if _alike(short[shape.place_of_row], kept[name]).all() else kept[name]
        here = np.repeat(shape.first, flat["token.top"])
        short = {"token.top": flat["token.top"][shape.first]} | {name: flat[name][here] for name in TOP}
        again = _repeated_tops(short, shape.place_of_row)
        if all(len(again[name]) == len(flat[name]) and _alike(again[name], flat[name]).all() for name in again):
            kept |= short
    arrays = {name: column if name == PIECE else pa.array(_small(column)) for name, column in kept.items()}
    lists = [pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values) for values in arrays.values()]
    return sealed(pa.record_batch(lists, names=list(arrays)))


def sealed(batch: pa.RecordBatch) -> bytes:
    """CRC-32 and the compressed batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = bytes(pa.Codec("zstd", LEVEL).compress(sink.getvalue(), asbytes=True))
    return zlib.crc32(data).to_bytes(CRC) + data


def opened(data: bytes) -> pa.RecordBatch:
    """The batch of ``sealed``. Raises ValueError for other bytes."""
    packed = memoryview(data)[CRC:]
    if len(data) < CRC or zlib.crc32(packed).to_bytes(CRC) != data[:CRC]:
        raise ValueError("the checksum does not match")
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return pa.ipc.open_stream(stream.read()).read_next_batch()


def unpack(version: int, data: bytes, seed: int) -> Flat:
    """The columns of a run. Raises LookupError for damaged bytes and for an unknown version of the format."""
    if version != VERSION:
        raise LookupError(f"the steps of a run have a format ({version}) that this version does not know")
    try:
        batch = opened(data)
        return _whole(dict(zip(batch.schema.names, (column.values for column in batch.columns), strict=True)), seed)
    except (pa.ArrowException, OSError, StopIteration, LookupError, TypeError, ValueError) as error:
        raise LookupError(f"the steps of a run are damaged ({type(error).__name__})") from None


def _whole(written: Mapping[str, pa.Array], seed: int) -> Flat:
    """All columns, from those that were written."""
    stored: Flat = {name: column if name == PIECE else _large(column) for name, column in written.items()}
    flat = {name: stored[name] for name in (PIECE, "vocabulary.id", "step.tokens", "step.nodes", "token.parent")}
    flat["run.seed"] = seed
    shape = Shape(flat)
    lengths = {"step": len(flat["step.tokens"]), "token": len(shape.first), "node": flat["step.nodes"].sum()}

    def whole(name: str, derived: Any = None) -> Any:
        group, _, field = name.partition(".")
        values = stored.get(name)
        if values is None:
            return np.full(lengths[group], ABSENT[_FIELDS[group][field]]) if derived is None else derived
        if f"{name}@" in stored:
            derived = derived.copy()
            derived[np.cumsum(stored[f"{name}@"])] = values
            return derived
        if derived is not None and derived.dtype.kind == "i":
            return derived + values
        return values[shape.place_of_row] if group == "token" and len(values) < lengths[group] else values

    for group, numbers in _FIELDS.items():
        names = (f"{group}.{name}" for name in (*_ALWAYS[group], *numbers))
        flat |= {name: whole(name) for name in names if name not in DERIVED}
    tops = {name: stored[name] for name in ("token.top", *TOP)}
    short = len(tops["token.top"]) < lengths["token"]
    flat |= _repeated_tops(tops, shape.place_of_row) if short else tops
    for name, derive in DERIVED.items():
        flat[name] = whole(name, derive(flat, shape))
    return flat


def _large(column: pa.Array) -> Any:
    values = column.to_numpy()
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)


def _small(column: Any) -> Any:
    """The column in the smallest type that is exact for every number."""
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            short = column.astype(np.float32)
        return short if ((short == column) | (column != column)).all() else column
    low, high = (column.min(), column.max()) if column.size else (0, 0)
    return column.astype(next((kind for kind, least, most in _KINDS if least <= low and high <= most), np.int64))


def _alike(one: Any, other: Any) -> Any:
    """Whether values have the same bits, or both are nan."""
    same = one.view(np.int64) == other.view(np.int64)
    return same if same.all() else same | (np.isnan(one) & np.isnan(other))


def _rest(name: str, column: Any, derived: Any) -> Flat:
    """The part of a derivable column to store: empty if it equals the derived values."""
    if column.dtype.kind != "f":
        return {name: column - derived} if (column != derived).any() else {}
    (other,) = np.nonzero(~_alike(column, derived))
    if 2 * len(other) > len(column):
        return {name: column}
    return {name: column[other], f"{name}@": np.diff(other, prepend=0)} if len(other) else {}


def _repeated_tops(tops: Mapping[str, Any], index: Any) -> Flat:
    """The alternatives of every row, from those at ``index`` [rows] in ``tops``."""
    counts = tops["token.top"]
    full = counts[index]
    at = np.repeat(starts(counts)[index], full) + places(full)
    return {"token.top": full} | {name: tops[name][at] for name in TOP}
