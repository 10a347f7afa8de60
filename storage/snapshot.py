"""A copy of a SQLite database while others write to it. For backups."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from storage.errors import StorageError, explained
from storage.opening import check_file
from storage.store import RunStore


def write_snapshot(store: RunStore, path: Path) -> str:
    """Copy the database of ``store``, as one transaction sees it, to the new file ``path``. Return
    what SQLite cannot read of it, which is copied as it is; empty for nothing. Raises StorageError.
    """
    with (
        explained("The backup was not created", str(path)),
        store.read() as connection,
        closing(sqlite3.connect(path)) as copy,
    ):
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.backup(copy)
    try:
        check_file(path)
    except StorageError as error:
        return str(error.__cause__)
    return ""
