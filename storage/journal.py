"""The journal of a SQLite file. A WAL only where it is safe, else a rollback journal, which is
truncated at each commit: unlike a deleted one it is synced, so that no committed transaction is
undone after a power failure, and nothing that was removed stays in it."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import struct
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import Engine, event

from storage.turns import patiently

WAL_SAFE = (3, 51, 3)  # earlier builds can lose a commit during a checkpoint
LOCAL = frozenset(
    [
        "bcachefs",
        "btrfs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "fuse.fuse-overlayfs",
        "overlay",
        "tmpfs",
        "xfs",
        "zfs",
    ]
)
SIDES = ("-journal", "-wal", "-shm")
WITHOUT_LOCKS = (
    "The file system of the database keeps no locks: let only one process use it at a time, or move "
    "it to a local disk."
)
LOG = logging.getLogger("mars.storage")


def mount_of(path: Path) -> Any:
    """Return the deepest mount that ``path`` is on, the last one if there are several; None if
    unknown."""
    real, mounts = path.resolve(), psutil.disk_partitions(all=True)
    containing = [mount for mount in mounts if real.is_relative_to(mount.mountpoint)]
    return max(
        reversed(containing), key=lambda mount: len(Path(mount.mountpoint).parts), default=None
    )


def keeps_locks(folder: Path) -> bool:
    """Return whether a lock on a file in ``folder`` excludes others; True where it cannot be tried.
    Raises OSError where there are no locks, with which SQLite would take the file for locked.

    Not tried on the database itself, whose locks that would drop, and with locks of open files:
    those of SQLite do not exclude others within one process."""
    if sys.platform != "linux":
        return True
    from fcntl import F_OFD_SETLK, F_WRLCK, fcntl

    lock = struct.pack("hhqqi0q", F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock: all of the file
    try:
        with (
            tempfile.TemporaryFile(dir=folder) as file,
            Path(f"/proc/self/fd/{file.fileno()}").open("rb+") as again,
        ):
            fcntl(file, F_OFD_SETLK, lock)
            fcntl(again, F_OFD_SETLK, lock)
    except OSError as error:
        if error.errno == errno.ENOLCK:
            raise
        return True
    return False


def safe_journal_mode(path: Path, version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """WAL for a safe build on a disk that is known to be local."""
    mount = mount_of(path)
    return (
        "WAL" if version >= WAL_SAFE and mount is not None and mount.fstype in LOCAL else "TRUNCATE"
    )


def set_journal(engine: Engine, path: Path, until: float) -> None:
    """Use the safe journal on every connection from now on. ``until``: by the monotonic clock,
    since a file leaves WAL mode only while nobody else has it open. Raises
    sqlite3.OperationalError."""
    pragma = f"PRAGMA journal_mode = {safe_journal_mode(path)}"

    def set_mode(connection: sqlite3.Connection, _record: Any = None) -> None:
        # Read to the end of the statement, where it may fail.
        connection.execute(pragma).fetchall()

    def convert() -> None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            set_mode(connection)
            connection.execute(
                _CHECKPOINT
            ).fetchall()  # of a process killed after it removed something

    # of two processes that open it at once, each would wait for the other to close it
    engine.dispose()
    patiently(convert, until)
    event.listen(engine, "connect", set_mode)


_CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"  # no effect without a WAL


def synced(path: Path) -> None:
    """Wait until a file, or a folder with its names, is on the disk. Not for an open database,
    whose locks this would drop."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class Emptying:
    """Empties the WAL of a database after something was removed: at once, or else when a later
    transaction of this process ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._due = engine, False
        event.listen(engine, "checkin", self._checkin)

    def begin(self) -> None:
        self._due = self._engine.dialect.name == "sqlite"
        with self._engine.connect():
            pass

    def _checkin(self, connection: sqlite3.Connection | None, _record: Any) -> None:
        if connection is None or not self._due:
            return
        try:
            connection.execute("PRAGMA busy_timeout = 0")  # each transaction sets its own
            self._due = bool(
                connection.execute(_CHECKPOINT).fetchall()[0][0]
            )  # while readers need it
        except sqlite3.Error as error:  # e.g. a full disk, which the next writer reports
            LOG.warning("checkpoint", exc_info=error)
