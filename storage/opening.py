"""Opens the store of a page, with a fallback if its database cannot be used. Deletes only its own
temporary file.

A damaged file is renamed and a new one created, unless a process has it open. In that case, and if
the database is newer than this version, locked, read-only or cannot be created, it is not changed,
and runs are stored in a temporary file until the page stops. A server that cannot be reached raises
StorageError instead.

Checks at every start: whether SQLite can read all of the file, for at most CHECK_S (a large file is
read in part), and whether it can be written to. Rows that break a constraint are no damage of the
file.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from storage import database
from storage.database import database_file, url_of
from storage.errors import StorageError, explained
from storage.journal import SIDES, keeps_locks, synced
from storage.store import RunStore
from storage.turns import turns_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHECK_S = 2.0
_HEADER = b"SQLite format 3\x00"
_OF_A_ROW = "NULL value in "  # a finding of quick_check
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STEPS_PER_CHECK = (
    10_000  # instructions of SQLite's virtual machine between two checks of the clock
)


class TemporaryStore(RunStore):
    """A store in a file that is deleted when it is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="mars-playground-", ignore_cleanup_errors=True
        )
        super().__init__(url_of(Path(self._folder.name) / "runs.db"))
        self.location = "a temporary file"

    def close(self) -> None:
        super().close()
        if not self._borrowed:
            self._folder.cleanup()


def open_or_set_aside(url: str | None = None) -> tuple[RunStore, str]:
    """Open a writable store, and a message: empty if it is the requested one, unchanged.

    Raises StorageError for an invalid URL and for a server that cannot be used.
    """
    path = database_file(url)
    if path is None:
        return RunStore(url), ""
    existed = path.exists()
    try:
        return _opened(url, path), "" if existed else _earlier(path)
    except StorageError as error:
        reason = error
    if _damaged(reason) and (url is None or _is_sqlite(path)):
        with suppress(StorageError, OSError, sqlite3.Error):
            moved = f"it was moved to {set_aside(path)}, and a new one was created"
            return _opened(url, path), f"The database was damaged; {moved}. {reason}"
    return TemporaryStore(), f"Runs are stored only until the page stops. {reason}"


def _earlier(path: Path) -> str:
    """Return where a damaged database of this name is, if there is one."""
    names = [each.name for each in path.parent.iterdir() if not each.name.endswith(SIDES)]
    damaged = [name for name in names if name.startswith(f"{path.name}.damaged-")]
    if not damaged:
        return ""
    return f"There was no database at {path}; an earlier one was damaged and is now {max(damaged)}."


def set_aside(path: Path) -> Path:
    """Rename a database with its journals; its new name. Raises OSError, also if a process has it
    open.

    A process killed meanwhile leaves it complete under one of the names. Journals keep their names
    too: SQLite removes those without a database itself.
    """
    aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    with turns_of(path).taken(time.monotonic() + database.BUSY_TIMEOUT_S), _alone(path):
        for side in SIDES[:2]:
            if (journal := Path(f"{path}{side}")).exists():
                os.link(journal, f"{aside}{side}")
        synced(path.parent)
        path.rename(aside)
        synced(path.parent)
    return aside


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds a lease of Linux on a file, which is granted if no process has it open. Raises OSError,
    also where there are no leases."""
    file = os.open(path, os.O_RDONLY)
    try:
        if not hasattr(fcntl, "F_SETLEASE"):
            raise OSError("It is not known whether a program has the file open.")
        fcntl.fcntl(
            file, fcntl.F_SETSIG, signal.SIGURG
        )  # ignored; sent when a process opens the file, which waits
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        try:
            yield
        finally:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    finally:
        os.close(file)


def _opened(url: str | None, path: Path) -> RunStore:
    check_file(path)
    store = RunStore(url)
    try:
        with store._write("The database cannot be written to") as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
    except BaseException:
        store.close()
        raise
    return store


def check_file(path: Path) -> None:
    """Read the file for at most CHECK_S. Raises StorageError."""
    with explained("The database could not be opened", str(path)):
        if not path.is_file() or path.stat().st_size == 0:
            return
        keeps_locks(path.parent)
        # rw, so that the journal of a killed writer can be rolled back first
        uri = f"{path.as_uri()}?mode=rw"
        with closing(
            sqlite3.connect(uri, uri=True, timeout=database.BUSY_TIMEOUT_S, isolation_level=None)
        ) as connection:
            until = time.monotonic() + CHECK_S
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS_PER_CHECK)
            try:
                lines = [row[0] for row in connection.execute("PRAGMA quick_check")]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    return
                raise
        if lines := [line for line in lines if line != "ok" and not line.startswith(_OF_A_ROW)]:
            damage = sqlite3.DatabaseError(lines[0].splitlines()[-1][:200])
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage


def _damaged(error: StorageError) -> bool:
    cause = error.__cause__
    cause = cause.orig if isinstance(cause, DBAPIError) else cause
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _DAMAGE  # the primary result code


def _is_sqlite(path: Path) -> bool:
    """Return whether it is a database: other files are not renamed."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False
