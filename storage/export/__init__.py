"""Runs, tokens, drafted nodes and votes as CSV (for spreadsheets) and Parquet (lossless).

Both have one row per run, token, node or vote, by creation of the comparisons, and are written in
constant memory by pyarrow. docs/data.md lists the columns. CSV: UTF-8, a header, texts in quotes;
times ISO 8601 in UTC; cells as in cells.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from storage.errors import explained
from storage.export.cells import csv_text as csv_text
from storage.export.cells import guarded as guarded
from storage.export.cells import printable
from storage.export.tables import EXPORTS
from storage.store import RunStore

ROWS_A_GROUP = 20_000  # per row group of a Parquet file
_CODED = [
    "top.list.element.id",
    "top.list.element.piece",
]  # dictionary-encoded, as all columns except floating point


def write_csv(
    name: str, store: RunStore, file: Path | BinaryIO, comparison_ids: Iterable[str] | None = None
) -> None:
    """Write all rows of the export ``name``, or those of some comparisons, to a file, which is
    replaced atomically if given by its path."""
    export = EXPORTS[name]
    tables = export.tables(store, comparison_ids)
    with _opened(file) as stream:
        stream.write(_csv(export.schema.empty_table(), header=True))
        for table in tables:
            stream.write(_csv(table))


def write_parquet(
    name: str, store: RunStore, file: Path | BinaryIO, comparison_ids: Iterable[str] | None = None
) -> None:
    """Write the rows of ``write_csv``."""
    schema, tables = EXPORTS[name].schema, EXPORTS[name].tables(store, comparison_ids)
    coded = [column.name for column in schema if not pa.types.is_floating(column.type)]
    options = {"compression": "zstd", "use_dictionary": coded + _CODED, "write_statistics": coded}
    with _opened(file) as stream, pq.ParquetWriter(stream, schema, **options) as writer:
        for group in _groups(tables):
            writer.write_table(group.cast(schema))


@contextmanager
def _opened(file: Path | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(file, Path):
        yield file
        return
    with atomic(file, "The file was not written") as part, part.open("wb") as stream:
        yield stream


@contextmanager
def atomic(path: Path, failure: str) -> Iterator[Path]:
    """Open a file beside ``path`` that only this user can read and that becomes ``path`` at the
    end. Raises StorageError."""
    part = path.with_name(f"{path.name}.part")
    with explained(failure, str(path)):
        try:
            part.touch(0o600)
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _csv(table: pa.Table, *, header: bool = False) -> pa.Buffer:
    """Return the lines of a table, or of an empty one its header."""
    sink = pa.BufferOutputStream()
    pc.write_csv(
        printable(table), sink, pc.WriteOptions(include_header=header, quoting_header="none")
    )
    return sink.getvalue()


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of ``tables`` in tables of ROWS_A_GROUP or a few more; the last one has the
    rest."""
    pending: list[pa.Table] = []
    for table in tables:
        pending.append(table)
        if sum(map(len, pending)) >= ROWS_A_GROUP:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)
