"""The steps of a run as bytes, without loss: an Arrow stream of one row, whose columns are lists,
compressed with zstd, after a checksum; and back, from bytes that may come from another database.

Numbers are stored in the smallest type that is exact for all: most were computed in float32.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from storage.traces.flat import GROUPS, NODE, OUTCOMES, PIECE, STEP, TOKEN, WORDS, Flat, joined

VERSION = 2  # of the format; added or removed columns do not change it
LEVEL, CRC = 9, 4  # of zstd; bytes of the checksum
MAX_BYTES = 2**27  # of an uncompressed stream
ABSENT = {np.int64: -1, np.float64: np.nan}  # values of columns that older data lacks
BROKEN = (  # what other bytes than a run's raise
    *(pa.ArrowException, LookupError, TypeError, ValueError),
    *(ArithmeticError, MemoryError, OSError, StopIteration),
)
_NUMBERS = {"step": STEP, "token": TOKEN, "node": NODE}
_OUTCOMES = ("token.outcome", "node.outcome")
_ALWAYS = (*GROUPS, *WORDS, *_OUTCOMES, "top.p", "vocabulary.id", PIECE)
_KINDS = [(kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int8, np.int16, np.int32)]


def pack(flat: Flat) -> bytes:
    """``flat``: of one run. Raises OverflowError for one that could not be read again."""
    arrays = {
        name: column if name == PIECE else pa.array(_small(column)) for name, column in flat.items()
    }
    lists = [
        pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        for values in arrays.values()
    ]
    return sealed(pa.record_batch(lists, names=list(arrays)))


def _small(column: Any) -> Any:
    """Return the column in the smallest type that is exact for every number."""
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            short = column.astype(np.float32)
        return short if ((short == column) | (column != column)).all() else column
    low, high = (column.min(), column.max()) if column.size else (0, 0)
    return column.astype(
        next((kind for kind, least, most in _KINDS if least <= low and high <= most), np.int64)
    )


def sealed(batch: pa.RecordBatch) -> bytes:
    """Return CRC-32 and the compressed batch. Raises OverflowError for one that could not be read
    again."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    plain = sink.getvalue()
    if plain.size > MAX_BYTES:
        raise OverflowError(f"its steps have {plain.size:,} bytes; {MAX_BYTES:,} are the most")
    data = bytes(pa.Codec("zstd", LEVEL).compress(plain, asbytes=True))
    return zlib.crc32(data).to_bytes(CRC) + data


def checked(version: int, data: bytes) -> bytes:
    """``data``, if ``unpack`` can read it. Raises LookupError for an unknown version of the
    format."""
    if version != VERSION:
        raise LookupError(
            f"the steps of a run have a format ({version}) that this version does not know"
        )
    return data


def unpack(packed: Sequence[bytes]) -> Flat:
    """Return the columns of these runs, one after the other. Raises LookupError for damaged
    bytes."""
    try:
        return joined([whole(columns_of(data)) for data in packed])
    except BROKEN as error:
        raise LookupError(f"the steps of a run are damaged ({type(error).__name__})") from None


def columns_of(data: bytes) -> Flat:
    """Return the stored columns of one run. Raises ValueError, ArrowException and others."""
    batch = opened(data)
    columns = {
        name: column.flatten()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return {
        name: column if name == PIECE else _wide(column.to_numpy())
        for name, column in columns.items()
    }


def _wide(values: Any) -> Any:
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)


def whole(stored: Flat) -> Flat:
    """Return the columns of this version; those that are not stored are absent. Raises LookupError,
    ValueError for columns that are no run's."""
    counts = {table: len(stored[f"{table}.token"]) for table in GROUPS.values()}
    counts |= {"step": len(stored["step.tokens"]), "vocabulary": len(stored[PIECE])}
    flat = {
        f"{table}.{name}": stored.get(f"{table}.{name}", np.full(counts[table], ABSENT[kind], kind))
        for table, numbers in _NUMBERS.items()
        for name, kind in numbers.items()
    }
    flat |= {name: stored[name] for name in _ALWAYS}
    most = {name: counts[table] for name, table in GROUPS.items()}
    most |= dict.fromkeys(WORDS, counts["vocabulary"] - 1)
    most |= dict.fromkeys(_OUTCOMES, len(OUTCOMES) - 1)
    fits = (
        *(len(column) == counts[name.partition(".")[0]] for name, column in flat.items()),
        *(
            flat[name].min(initial=0) >= 0 and flat[name].max(initial=0) <= largest
            for name, largest in most.items()
            if len(flat[name])
        ),
        *(flat[name].sum() == counts[table] for name, table in GROUPS.items()),
    )
    if not all(fits):
        raise ValueError("its columns are not those of a run")
    return flat


def opened(data: bytes) -> pa.RecordBatch:
    """Return the batch of ``sealed``. Raises ValueError and ArrowException for other bytes: sizes
    are checked before anything of that size is read, and so is what Arrow expands (compressed
    buffers) or takes on trust (offsets)."""
    packed = memoryview(data)[CRC:]
    if len(data) < CRC or zlib.crc32(packed).to_bytes(CRC) != data[:CRC]:
        raise ValueError("the checksum does not match")
    parts, size = list[bytes](), 0
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        while size <= MAX_BYTES and (more := stream.read(2**20)):
            parts.append(more)
            size += len(more)
    plain = b"".join(parts)
    source = pa.BufferReader(plain)
    fields, start = pa.ipc.read_schema(source), source.tell()
    message = pa.ipc.read_message(source)
    body = source.tell() - message.body.size
    if len(plain) > MAX_BYTES or message.type != "record batch":
        raise ValueError("it is larger than any run")
    if not all(
        pa.types.is_list(field.type) and _is_plain(field.type.value_type) for field in fields
    ):
        raise ValueError("its columns are not those of a run")
    # with zeros instead of its body, which decompress to nothing: Arrow refuses compressed buffers
    blank = pa.ipc.read_message(plain[start:body] + bytes(message.body.size))
    pa.ipc.read_record_batch(blank, fields)
    batch = pa.ipc.read_record_batch(message, fields)
    batch.validate(full=True)
    if len(batch) != 1:
        raise ValueError("it is not one run")
    return batch


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind))
