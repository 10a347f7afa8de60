"""All data of a store as one ZIP file, for its owner. Uses constant memory.

Tables are those of storage.export. JSON is ASCII. A non-finite number is null or a string.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import ZIP_DEFLATED, ZipFile

from sqlalchemy import select

from storage.export import atomic, write_csv, write_parquet
from storage.export.cells import finite
from storage.export.reading import ids_in_order
from storage.export.tables import EXPORTS
from storage.schema import ComparisonRow, Study
from storage.scope import Table
from storage.store import RunStore

ROWS_A_READ = 50
DERIVED = ("search", "number", "name_key", "runs", "tokens_per_s", "tau", "new_tokens")
SHARE = ("kind", "object_id", "created_at")
README = """\
All of your data in MARS Playground, exported {now} (UTC).

comparisons.json  each prompt that was run: its text and settings, when, and your name, tags and comment.
                  One with a time in "deleted_at" was deleted and can still be restored; it is in no other file.
runs.csv          one row per run: settings, output text, status, measurements.
tokens.csv        one row per token, including rejected ones, with the values that decided it.
nodes.csv         one row per drafted token.
counterfactuals.csv  one row per relaxed token that was followed: what strict would have written.
votes.csv         one row per blind vote.
studies.json      each study: its name and its plan. Its runs are in the tables.
shares.json       what is shared by a link. The links themselves are not stored, so they are not included.

All .csv are also included as .parquet, bit-exact.

CSV files are UTF-8 with a header. A text that a spreadsheet would read as a formula begins with an apostrophe, and a
character that cannot be displayed is written as \\uXXXX. Ids are the same in all files.
"""
DAMAGED = """
Left out, because the database has it in a damaged form:
"""


def write_everything(store: RunStore, path: Path) -> None:
    """Write all data of ``store`` to the ZIP file ``path``, atomically. Raises StorageError."""
    store = store.scoped(store.scope)
    store.left_out = {}
    with (
        atomic(path, "The export was not written") as part,
        ZipFile(part, "w", ZIP_DEFLATED) as archive,
    ):
        for name, values in (
            ("comparisons", _rows(store, ComparisonRow, *DERIVED, "owner")),
            ("studies", _rows(store, Study, "owner")),
            ("shares", ({key: getattr(share, key) for key in SHARE} for share in store.shares())),
        ):
            with _member(archive, f"{name}.json") as file:
                _write_json(file, values)
        for name in EXPORTS:
            for ending, write in (("csv", write_csv), ("parquet", write_parquet)):
                with _member(archive, f"{name}.{ending}") as file:
                    write(name, store, file)
        readme = README.format(now=f"{datetime.now(UTC):%Y-%m-%d %H:%M}")
        damaged = "".join(f"  the {name} ({error})\n" for name, error in store.left_out.items())
        archive.writestr("README.txt", readme + (damaged and f"{DAMAGED}{damaged}"))


def _member(archive: ZipFile, name: str) -> BinaryIO:
    """Open a member of unknown size, which may exceed 4 GiB."""
    return cast(BinaryIO, archive.open(name, "w", force_zip64=True))


def _write_json(file: BinaryIO, values: Iterable[dict[str, Any]]) -> None:
    """Write a list with one object per line."""
    before = "[\n"
    for value in values:
        line = json.dumps(finite(value), allow_nan=False, default=datetime.isoformat)
        file.write(f"{before}{line}".encode())
        before = ",\n"
    file.write(b"[]\n" if before == "[\n" else b"\n]\n")


def _rows(store: RunStore, table: Table, *but: str) -> Iterator[dict[str, Any]]:
    """Yield all columns ``but`` some, in order of creation, without damaged rows."""
    columns = [column for column in table.__table__.columns if column.name not in but]
    rows = select(*columns).order_by(table.created_at, table.id)
    name = "study" if table is Study else "comparison"
    for page in ids_in_order(store, table, store.scope.of(table), ROWS_A_READ):
        yield from store.rows(rows, table.id, name, dict, page)
