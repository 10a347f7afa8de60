"""Damage as a disk or another program does it: bytes of every table that are not what was written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from storage.schema import Base

NOT_UTF8 = b"\xff\xfe bad"


def damaged_rows(path: Path, *tables: str) -> dict[str, int]:
    """In the row of each table that was written first, every text that is no key and no name of a
    kind becomes bytes that are not UTF-8, and a bit of all other bytes is flipped; returns the
    number of the row by table."""
    damaged = {}
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, table in Base.metadata.tables.items():
            keys = {key.name for key in table.primary_key} | {
                key.parent.name for key in table.foreign_keys
            }
            columns = [
                column.name
                for column in table.columns
                if column.name not in keys and str(column.type).startswith(("TEXT", "JSON", "BLOB"))
            ]
            rowid = connection.execute(f"SELECT min(rowid) FROM [{name}]").fetchone()[0]
            if (tables and name not in tables) or rowid is None or not columns:
                continue
            for column in columns:
                value = connection.execute(
                    f"SELECT [{column}] FROM [{name}] WHERE rowid = ?", (rowid,)
                ).fetchone()[0]
                if isinstance(value, bytes):
                    changed = bytes([*value[:9], value[9] ^ 4, *value[10:]])
                    sql, bound = "?", changed
                else:
                    sql, bound = "CAST(? AS TEXT)", NOT_UTF8
                connection.execute(
                    f"UPDATE [{name}] SET [{column}] = {sql} WHERE rowid = ?", (bound, rowid)
                )
            damaged[name] = rowid
    return damaged
