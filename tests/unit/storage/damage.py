"""Damage as a disk or another program does it: bytes of every table that are not what was written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from storage.schema import Base


def damaged_rows(path: Path, *tables: str) -> int:
    """In the row of each table (default all) that was written first, every text that is no key
    becomes bytes that are not UTF-8, and a bit of other bytes is flipped; returns the number of
    damaged rows."""
    damaged = 0
    for name in tables or Base.metadata.tables:
        table = Base.metadata.tables[name]
        keys = {key.name for key in table.primary_key} | {
            each.parent.name for each in table.foreign_keys
        }
        kinds = ("TEXT", "JSON", "BLOB")
        free = [
            each.name for each in table.columns if each.name not in keys and str(each.type) in kinds
        ]
        damaged += any([damage_column(path, name, column) for column in free])
    return damaged


def damage_column(path: Path, table: str, column: str, *, last: bool = False) -> bool:
    """Change the value of the row that was written first, or last; returns whether there is one."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = f"SELECT rowid, [{column}] FROM [{table}] WHERE [{column}] IS NOT NULL"
        order = f"ORDER BY rowid {'DESC' if last else ''} LIMIT 1"
        row = connection.execute(f"{rows} {order}").fetchone()
        if row is None:
            return False
        connection.execute("PRAGMA ignore_check_constraints = ON")
        change = f"UPDATE [{table}] SET [{column}] = "
        if isinstance(row[1], bytes):
            flipped = bytes([*row[1][:9], row[1][9] ^ 4, *row[1][10:]])
            connection.execute(f"{change} ? WHERE rowid = ?", (flipped, row[0]))
        else:
            text = b"\xff" + str(row[1]).encode()
            connection.execute(f"{change} CAST(? AS TEXT) WHERE rowid = ?", (text, row[0]))
        return True
