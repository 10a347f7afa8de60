"""Changed rows of a SQLite database as Parquet files, and restoring a database from such files. For
backups.

Triggers on every table write the key of each row that is inserted, updated or deleted, by a cascade
too, into ``backup_changes``; only the last change of a row is stored. Tables and triggers are created
here: a database without backups has neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

from storage.database import known_schemas
from storage.errors import StorageError, explained
from storage.export import check_groups
from storage.schema import Base
from storage.store import RunStore

DELETED = "deleted"  # the file of deleted rows: their table, and their key as JSON
ROWS_A_READ = 200
_TABLES = {table.name: table for table in Base.metadata.sorted_tables}  # parents first
_GONE = pa.schema([("table", pa.string()), ("key", pa.string())])
_FAILURE = "The backup was not created"


@dataclass(frozen=True, slots=True)
class Changes:
    """``files``: of rows, by table, or DELETED; ``runs``: the changed runs that exports include,
    with their comparisons; ``last``: the number of the last change.
    """

    files: dict[str, Path]
    runs: dict[str, str]
    rows: int
    last: int


def follow(store: RunStore, target: str, *, copied: bool = False, everything: bool = False) -> None:
    """Record changes from now on, and all existing rows, unless they were recorded for this target
    and schema before.

    ``copied``: the target has all rows already; ``everything``: it has none.
    """
    state = f"{target} {known_schemas()[-1]}"
    with store._write(_FAILURE) as connection:
        run = connection.exec_driver_sql
        run("CREATE TABLE IF NOT EXISTS backup_place (place TEXT)")
        columns = "seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, key TEXT, UNIQUE (name, key)"
        run(f"CREATE TABLE IF NOT EXISTS backup_changes ({columns})")
        if run("SELECT place FROM backup_place").scalars().all() == [state] and not everything:
            return
        for name, table in _TABLES.items():
            for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
                trigger, this = f"backup_{name}_{event}", f"'{name}', {_key(table, row)}"
                # conflict handling is that of the outer statement
                delete = f"DELETE FROM backup_changes WHERE (name, key) = ({this})"
                # equivalent to OR REPLACE here
                insert = f"INSERT INTO backup_changes (name, key) VALUES ({this})"
                run(f"DROP TRIGGER IF EXISTS {trigger}")
                run(
                    f"CREATE TRIGGER {trigger} AFTER {event} ON [{name}] BEGIN {delete}; {insert}; "
                    "END"
                )
            if not copied:
                rows = f"SELECT '{name}', {_key(table, 'it')} FROM [{name}] AS it"
                run(f"INSERT OR REPLACE INTO backup_changes (name, key) {rows}")
        run("DELETE FROM backup_place")
        run("INSERT INTO backup_place VALUES (?)", (state,))


def write_changes(store: RunStore, folder: Path, most: int = -1) -> Changes | None:
    """The first ``most`` changes (−1: all) as files in ``folder``; None where there are none.
    Raises StorageError.

    A row is written as read; a later change of it is recorded as a new change.
    """
    noted = "SELECT max(seq), count(*) FROM (SELECT seq FROM backup_changes ORDER BY seq LIMIT ?)"
    exported = (
        "SELECT r.id, r.comparison_id FROM backup_changes c JOIN runs r ON r.id = "
        "json_extract(c.key, '$[0]') JOIN comparisons o ON o.id = r.comparison_id AND "
        "o.deleted_at IS NULL WHERE c.name = 'runs' AND c.seq <= ?"
    )
    with store.read() as connection:
        last, count = connection.exec_driver_sql(noted, (most,)).one()
        runs = dict(map(tuple, connection.exec_driver_sql(exported, (last,))))
    if not count:
        return None
    files, gone = dict[str, Path](), []
    with explained(_FAILURE, str(folder)):
        for name, table in _TABLES.items():
            keys = [
                f"it.[{key.name}] = json_extract(c.key, '$[{i}]')"
                for i, key in enumerate(table.primary_key)
            ]
            joined = f"backup_changes c LEFT JOIN [{name}] it ON {' AND '.join(keys)} WHERE c.name = '{name}'"
            lost = f"it.[{next(iter(table.primary_key)).name}] IS NULL"
            schema = _schema(table)
            columns = (
                f"CAST(it.[{field.name}] AS TEXT) AS [{field.name}]"
                if field.type == pa.string()
                else f"it.[{field.name}]"
                for field in schema
            )
            there = f"SELECT c.seq, {', '.join(columns)} FROM {joined} AND NOT {lost}"
            files |= _written(folder, name, schema, _pages(store, there, last))
            deleted = f"SELECT c.seq, c.name AS [table], c.key FROM {joined} AND {lost}"
            gone.append(_pages(store, deleted, last))
        files |= _written(folder, DELETED, _GONE, chain.from_iterable(gone))
    return Changes(files, runs, count, last)


def forget_changes(store: RunStore, changes: Changes) -> None:
    """Removes recorded changes that have been backed up."""
    with store._write(_FAILURE) as connection:
        connection.exec_driver_sql("DELETE FROM backup_changes WHERE seq <= ?", (changes.last,))


def read_changes(store: RunStore, files: Iterable[tuple[str, Path]]) -> None:
    """Insert the rows of files, by table, into a database without other users; of two rows with the
    same key the later one counts.

    Rows without their parents are skipped. Raises StorageError.
    """
    with (
        explained("The backup cannot be read", store.location),
        closing(store._engine.raw_connection()) as raw,
    ):
        run = raw.cursor()
        for pragma in ("foreign_keys = OFF", "recursive_triggers = ON", "synchronous = OFF"):
            run.execute(f"PRAGMA {pragma}")  # the second one: REPLACE fires delete triggers
        run.execute("BEGIN")
        for name, path in files:
            for statement, values in _statements(name, path):
                run.executemany(statement, values)
        for name, table in _TABLES.items():
            for key in table.foreign_key_constraints:
                foreign_key = f"it.[{key.elements[0].parent.name}]"
                pairs = (
                    f"p.[{each.column.name}] = it.[{each.parent.name}]" for each in key.elements
                )
                parents = f"SELECT 1 FROM [{key.referred_table.name}] p WHERE {' AND '.join(pairs)}"
                run.execute(
                    f"DELETE FROM [{name}] AS it WHERE {foreign_key} IS NOT NULL AND NOT EXISTS "
                    f"({parents})"
                )
        run.execute("COMMIT")
        raw.invalidate()  # the connection keeps these pragmas, so it is not reused


def _statements(name: str, path: Path) -> Iterator[tuple[str, Sequence[Any]]]:
    """The statements for a file, a few rows at a time, with their parameters."""
    try:
        with pq.ParquetFile(path) as file:
            check_groups(file)
            schema = (file.schema_arrow.metadata or {}).get(b"mars_schema", b"").decode()
            if schema not in known_schemas():
                raise StorageError(
                    f"The backup has the schema {schema!r}, which this version does not know; "
                    "update the app."
                )
            for batch in file.iter_batches(ROWS_A_READ):
                if name == DELETED:
                    for row in batch.to_pylist():
                        match = " AND ".join(
                            f"[{key.name}] = ?" for key in _TABLES[row["table"]].primary_key
                        )
                        yield (
                            f"DELETE FROM [{row['table']}] WHERE {match}",
                            [json.loads(row["key"])],
                        )
                    continue
                names = [each for each in batch.schema.names if each in _TABLES[name].c]
                into, values = (
                    ", ".join(form.format(each) for each in names) for form in ("[{}]", ":{}")
                )
                rows = batch.to_pylist()
                for row in rows:
                    if row.get("pass_rows") is not None:  # of schema 0007: as its migration
                        exact = {"exact": f"{row['pass_rows']} rows, {row['pass_width']} positions"}
                        row["environment"] = json.dumps(
                            json.loads(row["environment"]) | exact, ensure_ascii=False
                        )
                yield f"INSERT OR REPLACE INTO [{name}] ({into}) VALUES ({values})", rows
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise StorageError(
            f"The backup cannot be read: the file {path.name} of {name} is damaged."
        ) from error


def _pages(store: RunStore, select: str, last: int) -> Iterator[list[dict[str, Any]]]:
    """Rows with their number, a few at a time, each time in a short transaction."""
    seq, condition = 0, f"AND c.seq > ? AND c.seq <= ? ORDER BY c.seq LIMIT {ROWS_A_READ}"
    while True:
        with store.read() as connection:
            rows = connection.exec_driver_sql(f"{select} {condition}", (seq, last)).mappings().all()
        if not rows:
            return
        yield list(map(dict, rows))
        seq = rows[-1]["seq"]


def _written(
    folder: Path, name: str, schema: pa.Schema, pages: Iterator[list[dict[str, Any]]]
) -> dict[str, Path]:
    """The file of these rows by its name; none without rows."""
    if (first := next(pages, None)) is None:
        return {}
    path, schema = (
        folder / f"{name}.parquet",
        schema.with_metadata({"mars_schema": known_schemas()[-1]}),
    )
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for rows in chain([first], pages):
            writer.write_table(pa.Table.from_pylist(rows, schema))
    return {name: path}


def _key(table: Table, row: str) -> str:
    return f"json_array({', '.join(f'{row}.[{key.name}]' for key in table.primary_key)})"


def _schema(table: Table) -> pa.Schema:
    """The columns as SQLite stores them: times and JSON are texts. Numbers set by a trigger are
    excluded."""
    columns = (
        column for column in table.columns if (table.name, column.name) != ("comparisons", "number")
    )
    return pa.schema(
        [(column.name, _arrow(column.type.compile(dialect=sqlite.dialect()))) for column in columns]
    )


def _arrow(declared: str) -> Any:
    kinds = (
        ("INT", pa.int64()),
        ("BOOL", pa.int64()),
        ("DOUBLE", pa.float64()),
        ("BLOB", pa.binary()),
    )
    return next((kind for word, kind in kinds if word in declared), pa.string())
