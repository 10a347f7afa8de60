"""Runs, tokens, drafted nodes and votes as CSV (for spreadsheets) and Parquet (lossless).

Both have one row per run, token, node or vote, by creation of the comparisons, and are written in constant memory by
pyarrow. docs/data.md lists the columns. CSV: UTF-8, a header, texts in quotes; times ISO 8601 in UTC; cells as in cells.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from storage.errors import explained
from storage.export.cells import cell as cell
from storage.export.cells import guarded as guarded
from storage.export.cells import printable
from storage.export.tables import EXPORTS
from storage.store import RunStore

ROWS_A_GROUP = 20_000  # per row group of a Parquet file
_CODED = ["top.list.element.id", "top.list.element.piece"]  # dictionary-encoded, as all columns except floating point


def write_csv(name: str, store: RunStore, file: Path | BinaryIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All rows of the export ``name``, or those of some comparisons, to a file."""
    export = EXPORTS[name]
    tables = export.tables(store, comparison_ids)
    printed = printable(export.schema.empty_table()).schema
    with pc.CSVWriter(file, printed, write_options=pc.WriteOptions(quoting_header="none")) as writer:
        for table in _ahead(map(printable, tables)):
            writer.write_table(table)


def write_parquet(
    name: str, store: RunStore, file: Path | BinaryIO, comparison_ids: Iterable[str] | None = None
) -> None:
    """All rows of the export ``name``, or those of some comparisons, to a file, which is replaced atomically if given by its path."""
    export = EXPORTS[name]
    tables = export.tables(store, comparison_ids)
    with atomic(file, "The Parquet file was not written") if isinstance(file, Path) else nullcontext(file) as part:
        coded = [column.name for column in export.schema if not pa.types.is_floating(column.type)]
        with pq.ParquetWriter(
            part, export.schema, compression="zstd", use_dictionary=coded + _CODED, write_statistics=coded
        ) as writer:
            for group in _groups(_ahead(tables)):
                writer.write_table(group)


@contextmanager
def atomic(path: Path, failure: str) -> Iterator[Path]:
    """A file beside ``path`` that only this user can read and that becomes ``path`` at the end. Raises StorageError."""
    part = path.with_name(f"{path.name}.part")
    with explained(failure, str(path)):
        try:
            part.touch(0o600)
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _ahead(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same tables; each is computed in a thread while the previous one is written."""
    source = iter(tables)
    with ThreadPoolExecutor(1, "export") as thread:
        pending = thread.submit(next, source, None)
        while (table := pending.result()) is not None:
            pending = thread.submit(next, source, None)
            yield table


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of ``tables`` in tables of ROWS_A_GROUP or a few more; the last one has the rest."""
    pending: list[pa.Table] = []
    for table in tables:
        pending.append(table)
        if sum(map(len, pending)) >= ROWS_A_GROUP:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)
