"""One whole, checked copy of a SQLite database while others write to it, for backups. Knows no place to send it to.

The copy is made a few megabytes at a time, with pauses in which writers get their turn. SQLite begins anew whenever one of them
did write; after PATIENCE_S the copy is made in one go, for which writers wait, as they do for each other. A copy is one
file without journal, readable by its owner alone; of an unchanged database it is the same, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from storage.database import known_schemas
from storage.errors import StorageError, explained

PAGES_A_STEP = 1024  # 4 MiB
PAUSE_S = 0.005  # between two steps
PATIENCE_S = 20.0
_DONE = 101  # SQLITE_DONE
LONGEST_S = 120.0  # for which a database may be locked by others


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy that was found to be whole. ``schema``: its revision; ``comparisons``: how many it has, deleted ones included."""

    path: Path
    bytes: int
    sha256: str  # hexadecimal
    comparisons: int
    schema: str


class _TooLong(Exception):
    """Others left no time, or no lock, for the copy."""


def write_snapshot(database: Path, target: Path) -> Snapshot:
    """Copy the database file ``database`` to ``target``, which appears whole or not at all. Raises StorageError."""
    part = target.with_name(f"{target.name}.part")
    with explained("The snapshot was not made", str(database)):
        try:
            _remove(part)
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _copy(database, part)
            found = _checked(part)
            _to_disk(part)
            part.replace(target)
            _to_disk(target.parent)
        finally:
            _remove(part)
    return Snapshot(target, *found)


def check_snapshot(path: Path) -> Snapshot:
    """Read a copy through without changing it. Raises StorageError where it is damaged, or of a schema not known here."""
    with explained("The snapshot cannot be used", str(path)):
        found = Snapshot(path, *_checked(path))
    if found.schema not in known_schemas():
        raise StorageError(
            f"The snapshot has the schema {found.schema!r}, which this version of MARS Playground does not know ({path})."
        )
    return found


def _copy(database: Path, part: Path) -> None:
    # rw: a killed writer's journal may have to be rolled back; never makes a file
    with closing(_connect(database, "mode=rw")) as source, closing(sqlite3.connect(part, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # it goes to the disk as a whole, when it is known to be good
        copy.execute("PRAGMA journal_mode = OFF")
        try:
            source.backup(copy, pages=PAGES_A_STEP, progress=_pausing(PATIENCE_S))
        except _TooLong:
            try:
                source.backup(copy, pages=-1, progress=_pausing(LONGEST_S))
            except _TooLong:
                raise OSError("database is locked") from None
        copy.execute("PRAGMA journal_mode = DELETE")  # that of the original came with it


def _pausing(patience_s: float) -> Callable[[int, int, int], None]:
    """What is called after each step: lets others have their turn, and gives up when the time is over."""
    until = time.monotonic() + patience_s

    def pause(status: int, _remaining: int, _total: int) -> None:
        if status != _DONE and time.monotonic() > until:
            raise _TooLong
        time.sleep(PAUSE_S)

    return pause


def _checked(path: Path) -> tuple[int, str, int, str]:
    """Size, hash, comparisons, schema. Raises StorageError for what is no whole database of runs."""
    try:
        with closing(_connect(path, "mode=ro&immutable=1")) as copy:
            faults = [row[0] for row in copy.execute("PRAGMA integrity_check(1)")]
            if faults != ["ok"]:
                raise StorageError(f"The snapshot is damaged: {faults[0].splitlines()[-1][:200]} ({path}).")
            if copy.execute("PRAGMA foreign_key_check").fetchone() is not None:
                raise StorageError(f"The snapshot is damaged: rows refer to rows that are not there ({path}).")
            (schema,) = copy.execute("SELECT version_num FROM alembic_version").fetchone() or ("",)
            (comparisons,) = copy.execute("SELECT count(*) FROM comparisons").fetchone()
    except sqlite3.Error as error:
        raise StorageError(f"The snapshot is damaged, or no database of runs: {error} ({path}).") from None
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest(), comparisons, schema


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=0.2)
    except sqlite3.Error as error:
        raise OSError(str(error)) from None


def _to_disk(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(part: Path) -> None:
    for name in (part, Path(f"{part}-journal"), Path(f"{part}-wal"), Path(f"{part}-shm")):
        name.unlink(missing_ok=True)
