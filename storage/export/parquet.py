"""Stored columns as a Parquet file that appears whole or not at all. Knows no CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Boolean, ColumnElement, Integer
from sqlalchemy.types import TypeEngine

from storage.errors import explained
from storage.export.cells import shaped
from storage.export.rows import SCHEMA_VERSION, Columns, Piece
from storage.schema.columns import Real, SafeJson, UtcTime

_TOP = pa.struct([("id", pa.int64()), ("piece", pa.string()), ("p", pa.float64())])
_NESTED = {
    "stop": pa.list_(pa.string()),
    "tags": pa.list_(pa.string()),
    "rule_parameters": pa.map_(pa.string(), pa.float64()),
    "acceptance_by_position": pa.list_(pa.float64()),
    "environment": pa.map_(pa.string(), pa.string()),
    "prompt_ids": pa.list_(pa.int64()),
    "prefix": pa.list_(pa.int64()),
    "given": pa.list_(
        pa.struct([("id", pa.int64()), ("piece", pa.string()), ("start", pa.int64()), ("end", pa.int64())])
    ),
    "history": pa.list_(pa.struct([("user", pa.string()), ("answer", pa.string())])),
    "top": pa.list_(_TOP),
}
_PLAIN = (
    (Real, pa.float64()),
    (UtcTime, pa.timestamp("us", "UTC")),
    (Boolean, pa.bool_()),
    (Integer, pa.int64()),  # BigInteger is one
)


def write(path: Path, columns: Columns, pieces: Iterable[Piece], rows_a_group: int) -> None:
    """``pieces`` to the file ``path``, in row groups of ``rows_a_group``. Raises StorageError."""
    about = {
        "schema_version": str(SCHEMA_VERSION),
        "text": "U+241B and 4 hex digits stand for U+0000, U+D800-DFFF, U+241B",
    }
    fields = [pa.field(column.name, _type(column.name, column.type)) for column in columns]
    schema = pa.schema(fields, metadata=about)
    tables = (
        pa.Table.from_arrays([_array(column, piece[column.name]) for column in columns], schema=schema)
        for piece in pieces
    )
    part = path.with_name(path.name + ".part")
    with explained("The Parquet file was not written", str(path)):
        try:
            with pq.ParquetWriter(part, schema, compression="zstd") as writer:
                for group in _groups(tables, rows_a_group):
                    writer.write_table(group)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _type(name: str, kind: TypeEngine[Any]) -> Any:
    if name in _NESTED:
        return _NESTED[name]
    return next((arrow for known, arrow in _PLAIN if isinstance(kind, known)), pa.string())


def _groups(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """The rows of ``tables`` in tables of ``rows``; the last one holds what is left."""
    pending: list[Any] = []
    for table in tables:
        pending.append(table)
        while sum(map(len, pending)) >= rows:
            joined = pa.concat_tables(pending)
            yield joined.slice(0, rows)
            pending = [joined.slice(rows)]
    if sum(map(len, pending)):
        yield pa.concat_tables(pending)


def _array(column: ColumnElement[Any], values: Sequence[Any]) -> Any:
    match column.type:
        case Real():
            return pa.array(np.array(values, np.float64))  # None becomes nan
        case SafeJson() if column.name == "top":
            return _alternatives(values)
        case SafeJson():
            return pa.array(list(map(_pairs, shaped(column.name, values))), _NESTED[column.name])
        case _:
            return pa.array(values, _type(column.name, column.type))


def _alternatives(texts: Sequence[str]) -> Any:
    """The column ``top``: flat columns and where each row begins in them."""
    rows = json.loads(f"[{','.join(texts)}]")
    flat = [item for row in rows for item in row]
    ids, pieces, p = zip(*flat, strict=True) if flat else ((), (), ())
    parts = [pa.array(ids, pa.int64()), pa.array(pieces, pa.string()), pa.array(np.array(p, np.float64))]
    starts = pa.array(accumulate(map(len, rows), initial=0), pa.int32())
    return pa.ListArray.from_arrays(starts, pa.StructArray.from_arrays(parts, fields=list(_TOP)))


def _pairs(value: Any) -> Any:
    """``value`` as Arrow takes it: a map is a list of pairs."""
    return list(value.items()) if isinstance(value, dict) else value
