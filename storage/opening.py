"""The store of a page that is to run whatever became of its database. Deletes nothing but its own temporary file.

A damaged file is moved aside and a new one begun. Where the database is newer than this version, locked, read-only or cannot be
made, it is left as it is, and runs are kept in a temporary file until the page stops. A server that cannot be reached is no such
case: whoever starts the page again may have it back.

What is looked for at every start: whether SQLite can read the file through, for CHECK_S at most (a large file is read in
part), and whether it can be written to.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from storage.database import BUSY_TIMEOUT_S, database_file
from storage.errors import StorageError, explained
from storage.store import RunStore

CHECK_S = 2.0
_HEADER = b"SQLite format 3\x00"
_SIDES = ("-journal", "-wal", "-shm")
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STEPS_A_LOOK = 10_000  # of SQLite's machine, between two looks at the clock


class Damaged(StorageError):
    """The file cannot be read through."""


class TemporaryStore(RunStore):
    """A store in a file that goes when it is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mars-playground-", ignore_cleanup_errors=True)
        super().__init__(f"sqlite:///{Path(self._folder.name) / 'runs.db'}")
        self.location = "a temporary file"

    def _end(self) -> None:
        super()._end()
        self._folder.cleanup()


def open_or_set_aside(url: str | None = None) -> tuple[RunStore, str]:
    """A store that can be written to, and what there is to say about it: empty where it is the one asked for, as it was.

    Raises StorageError for a URL that is none and for a server that cannot be used.
    """
    path = database_file(url)
    if path is None:
        return RunStore(url), ""
    try:
        return _opened(url, path), ""
    except StorageError as error:
        if not _damaged(error) or not (url is None or _is_sqlite(path)):
            return TemporaryStore(), f"Runs are kept until the page stops, not longer. {error}"
        damage = error
    try:
        aside = set_aside(path)
        store = _opened(url, path)
    except (StorageError, OSError):
        return TemporaryStore(), f"Runs are kept until the page stops, not longer. {damage}"
    return store, f"The database was damaged; it was moved to {aside}, and a new one was begun. {damage}"


def set_aside(path: Path) -> Path:
    """Rename a database with its journals; its new name. Raises OSError."""
    now = datetime.now(UTC)
    aside, number = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}-{number}")
    for side in _SIDES:  # first: a journal left behind would be played back into the new file
        if (journal := Path(f"{path}{side}")).exists():
            journal.rename(f"{aside}{side}")
    path.rename(aside)
    return aside


def _opened(url: str | None, path: Path) -> RunStore:
    _check(path)
    store = RunStore(url)
    try:
        with store._write("The database cannot be written to") as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
    except BaseException:
        store.close()
        raise
    return store


def _check(path: Path) -> None:
    """Read the file through, for a while. Raises StorageError, of which Damaged."""
    with explained("The database could not be opened", str(path)):
        if not path.is_file() or path.stat().st_size == 0:
            return
        uri = f"{path.as_uri()}?mode=rw"  # rw: the journal of a killed writer is to be rolled back first
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            until = time.monotonic() + CHECK_S
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS_A_LOOK)
            try:
                found = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    return
                raise
    if found != ["ok"]:
        raise Damaged(f"The database could not be opened: {found[0].splitlines()[-1][:200]} ({path}).")


def _damaged(error: StorageError) -> bool:
    cause = error.__cause__
    cause = cause.orig if isinstance(cause, DBAPIError) else cause
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # the rest says more of the same
    return isinstance(error, Damaged) or code in _DAMAGE


def _is_sqlite(path: Path) -> bool:
    """Whether it once was a database: who names a letter by mistake is to find it where it was."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False
