"""The steps of a run as bytes: one row of an Arrow record batch (its columns are lists), compressed with zstd. Lossless.

Numbers are stored in the smallest type that is exact for all: most were computed in float32. Columns that follow from others are left
out and computed when read (derived.py). Values that differ from the derived ones are stored: all differences for integers, for
others the differing values, with their indices in a column ``NAME@``. The target's values at a place (PLACE) are stored once, though a
rejected token and the one emitted instead both have them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from storage.traces.derived import DERIVED, Shape
from storage.traces.flat import ABSENT, NODE, STEP, TOKEN, Flat

VERSION = 1  # of the format; added or removed columns do not change it
LEVEL, CRC = 3, 4  # of zstd; bytes of the checksum
PIECE = "vocabulary.piece"
PLACE = tuple(f"token.{name}" for name in ("z1", "z2", "entropy", "coin", "edge", "u"))
TOP = ("top.token", "top.p")


def pack(flat: Flat) -> bytes:
    """``flat``: of one run."""
    shape, kept = Shape(flat), dict(flat)
    for name in ("run.steps", "run.vocabulary", "run.seed"):
        del kept[name]
    for name, derive in DERIVED.items():
        kept |= _rest(name, kept.pop(name), derive(flat, shape))
    first, of_row = shape.first, shape.place_of_row
    for name in PLACE:
        if name in kept and f"{name}@" not in kept and len(kept[name]) == len(first):
            short = kept[name][first]
            kept[name] = short if _alike(short[of_row], kept[name]).all() else kept[name]
    short = {"token.top": flat["token.top"][first]} | {
        name: flat[name][np.repeat(first, flat["token.top"])] for name in TOP
    }
    again = _repeated_tops(short, of_row)
    if all(len(again[name]) == len(flat[name]) and _alike(again[name], flat[name]).all() for name in again):
        kept |= short
    arrays = {
        name: column if isinstance(column, pa.Array) else pa.array(_small(column)) for name, column in kept.items()
    }
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
    if len(data) < CRC or zlib.crc32(memoryview(data)[CRC:]).to_bytes(CRC) != data[:CRC]:
        raise ValueError("the checksum does not match")
    with pa.CompressedInputStream(pa.BufferReader(memoryview(data)[CRC:]), "zstd") as stream:
        return pa.ipc.open_stream(stream.read()).read_next_batch()


def checked(version: int, data: bytes) -> bytes:
    """``data``, if ``unpack`` can read it. Raises LookupError for an unknown version of the format."""
    if version != VERSION:
        raise LookupError(f"the steps of a run have a format ({version}) that this version does not know")
    return data


def unpack(packed: Sequence[bytes], seeds: Sequence[int]) -> Flat:
    """The columns of these runs, one after the other. Raises LookupError for damaged bytes."""
    try:
        return _joined([_read(data) for data in packed], seeds)
    except (pa.ArrowException, OSError, StopIteration, LookupError, TypeError, ValueError) as error:
        raise LookupError(f"the steps of a run are damaged ({type(error).__name__})") from None


def _read(data: bytes) -> Flat:
    """The stored columns of a run, in the stored types, with all columns present."""
    batch = opened(data)
    kept: Flat = {
        name: column.values if name == PIECE else column.values.to_numpy()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    for table, names in (("step", STEP), ("token", TOKEN), ("node", NODE)):
        for each in names:
            name = f"{table}.{each}"
            if name not in kept and name not in DERIVED:
                kept[name] = np.full(_length(kept, name), ABSENT[names[each]], names[each])
    return kept


def _joined(runs: Sequence[Flat], seeds: Sequence[int]) -> Flat:
    def column(name: str) -> Any:
        whole = np.concatenate([run[name] for run in runs])
        return whole.astype(np.float64 if whole.dtype.kind == "f" else np.int64, copy=False)

    flat: Flat = {PIECE: pa.concat_arrays([run[PIECE] for run in runs]), "run.seed": np.array(seeds, object)}
    flat["run.steps"] = np.array([len(run["step.tokens"]) for run in runs])
    flat["run.vocabulary"] = np.array([len(run[PIECE]) for run in runs])
    for name in ("step.tokens", "token.parent"):
        flat[name] = column(name)
    shape = Shape(flat)
    for run, rows in zip(runs, shape.rows, strict=True):
        places = (
            shape.place_of_row[rows] - shape.place_of_row[rows.start] if rows.stop > rows.start else np.array([], int)
        )
        for name in PLACE:
            if f"{name}@" not in run and len(run.get(name, places)) != len(places):
                run[name] = run[name][places]
        if len(run["token.top"]) != len(places):
            run |= _repeated_tops(run, places)
    words = {"token.token", "top.token"}
    for run, start in zip(runs, shape.vocabulary_start, strict=True):
        run |= {name: run[name] + start for name in words}
    flat |= {name: column(name) for name in _common(runs) - DERIVED.keys() - {PIECE}}
    for name, derive in DERIVED.items():
        flat[name] = _whole(name, runs, derive(flat, shape))
    return flat


def _common(runs: Sequence[Flat]) -> set[str]:
    """The columns that all runs have: later formats may have more."""
    return {name for name in runs[0] if "@" not in name and all(name in run for run in runs)}


def _small(column: Any) -> Any:
    """The column in the smallest type that is exact for every number."""
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            short = column.astype(np.float32)
        return short if np.array_equal(short.astype(np.float64), column, equal_nan=True) else column
    low, high = (column.min(), column.max()) if column.size else (0, 0)
    kinds = (np.int8, np.int16, np.int32)
    return column.astype(
        next((kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max), np.int64)
    )


def _alike(one: Any, other: Any) -> Any:
    """Whether values have the same bits, or both are nan."""
    return (one.view(np.int64) == other.view(np.int64)) | (np.isnan(one) & np.isnan(other))


def _rest(name: str, column: Any, derived: Any) -> Flat:
    """The part of a derivable column to store: empty if it equals the derived values."""
    if column.dtype.kind != "f":
        return {name: column - derived} if (column != derived).any() else {}
    (other,) = np.nonzero(~_alike(column, derived))
    if 2 * len(other) > len(column):
        return {name: column}
    return {name: column[other], f"{name}@": np.diff(other, prepend=0)} if len(other) else {}


def _whole(name: str, runs: Sequence[Mapping[str, Any]], derived: Any) -> Any:
    """The concatenated columns restored from ``_rest``."""
    whole, start = derived.copy(), 0
    for run in runs:
        part = whole[start : start + _length(run, name)]
        if f"{name}@" in run:
            part[np.cumsum(run[f"{name}@"])] = run[name]
        elif name in run:
            part[:] = run[name] if derived.dtype.kind == "f" else part + run[name]
        start += len(part)
    return whole


def _length(run: Mapping[str, Any], name: str) -> int:
    """The number of rows of a column's table."""
    match name.partition(".")[0]:
        case "step":
            return len(run["step.tokens"])
        case "token":
            return len(run["token.token"])
    return int(run["step.nodes"].sum())


def _repeated_tops(tops: Mapping[str, Any], places: Any) -> Flat:
    """The alternatives of every row, from those of every place."""
    counts = tops["token.top"]
    full = counts[places]
    start = (np.cumsum(counts) - counts)[places] - (np.cumsum(full) - full)
    at = np.repeat(start, full) + np.arange(full.sum())
    return {"token.top": full} | {name: tops[name][at] for name in TOP}
