"""Exclusive write access to a SQLite file among threads and processes: a lock on the file ``NAME-lock`` beside it (Linux, local disks), and
the transactions and checkpoints of an engine under it.

SQLite before 3.51.3 can damage a database in WAL mode when one connection commits while another makes a checkpoint. Committing
connections hold this lock, and checkpoints run within the COMMIT or under the lock, so that the two never coincide.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOG = logging.getLogger("mars.storage")
BUSY_TIMEOUT_S = 10.0  # how long a writer waits for others
PAUSE_S = 0.001  # between two attempts
_LOCAL = frozenset(
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "fuse.fuse-overlayfs", "overlay", "tmpfs", "xfs", "zfs"]
)
WRITING = "mars_writing"  # execution option of writing connections
PATIENCE = "mars_patience"  # execution option: seconds that a writer may wait for others in addition to the usual ones
LARGE_WAL = 64 * 2**20  # bytes, from which a full checkpoint waits for readers
CHECKPOINT_WAIT_S, CHECKPOINT_EVERY_S = 0.1, 10.0  # how long a writer waits for readers, and how often
_FULL_CHECKPOINT, _LOCK_FILE = "mars_whole", "mars_held"  # keys of a pooled connection's info


class FairLock:
    """A lock of threads that is granted in order of request; ``threading.Lock`` can starve other writers."""

    def __init__(self) -> None:
        self._changed, self._next, self._served = threading.Condition(), 0, 0  # the numbers of requests

    def __enter__(self) -> None:
        with self._changed:
            number, self._next = self._next, self._next + 1
            self._changed.wait_for(lambda: self._served == number)

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._served += 1
            self._changed.notify_all()

    def let_pass(self, seconds: float) -> None:
        """Wait until nobody has it or waits for it, at most ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: self._served == self._next, seconds)


def lock_file(database: Path) -> Path | None:
    """The lock file of ``database``; None if locks are not supported or the file system is not a known local one."""
    mount = mount_of(database.parent)
    return Path(f"{database}-lock") if fcntl is not None and mount and mount.fstype in _LOCAL else None


def mount_of(path: Path, mounts: Iterable[Any] | None = None) -> Any:
    """The deepest mount that ``path`` is on, the last one if there are several; None if unknown. ``mounts``: default this system's."""
    real, known = path.resolve(), psutil.disk_partitions(all=True) if mounts is None else mounts
    found = [mount for mount in known if real.is_relative_to(mount.mountpoint)]
    return max(reversed(found), key=lambda mount: len(Path(mount.mountpoint).parts), default=None)


def acquire(path: Path, seconds: float) -> int:
    """Waits for the lock and returns the open file; ``os.close`` releases it. Raises sqlite3.OperationalError after ``seconds``, OSError.

    Two locks avoid starvation: the owner of the first is next in line, and releases it after acquiring the second. So a process that
    writes again immediately comes after the one that waits.
    """
    until = time.monotonic() + seconds
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        for lock in (fcntl.lockf, fcntl.flock):
            while not _locked(lock, file):
                if time.monotonic() > until:
                    raise sqlite3.OperationalError("database is locked")
                time.sleep(PAUSE_S)
        fcntl.lockf(file, fcntl.LOCK_UN)
    except BaseException:
        os.close(file)
        raise
    return file


def _locked(lock: Callable[[int, int], object], file: int) -> bool:
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    return True


def checkpoint(engine: Engine) -> None:
    """Copy the whole WAL into the file and truncate it, so that deleted data is in neither. No effect while readers block it."""
    if engine.dialect.name != "sqlite":
        return
    try:
        with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            connection.info[_FULL_CHECKPOINT] = True
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        LOG.warning("checkpoint", exc_info=error)


class Writers:
    """Begins the transactions of an engine on ``path``. Writers hold the write lock until their connection is returned."""

    def __init__(self, path: Path) -> None:
        self._lock, self._wal = lock_file(path), Path(f"{path}-wal")
        self._next_checkpoint = 0.0  # by the monotonic clock

    def begin(self, connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get(WRITING):
            connection.exec_driver_sql("BEGIN")
            return
        seconds = BUSY_TIMEOUT_S + options.get(PATIENCE, 0.0)
        if self._lock and _LOCK_FILE not in connection.info:
            connection.info[_LOCK_FILE] = acquire(self._lock, seconds)
        elif not self._lock:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * seconds)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def end(self, connection: sqlite3.Connection | None, record: Any) -> None:
        """Ends a transaction. Automatic checkpoints during COMMIT keep the pages that readers need."""
        whole, lock_fd = record.info.pop(_FULL_CHECKPOINT, False), record.info.pop(_LOCK_FILE, None)
        try:
            if connection is not None and (whole or (lock_fd is not None and self._too_large())):
                self._checkpoint(connection)
        finally:
            if lock_fd is not None:
                os.close(lock_fd)

    def _too_large(self) -> bool:
        now = time.monotonic()
        if now < self._next_checkpoint or not self._wal.exists() or self._wal.stat().st_size < LARGE_WAL:
            return False
        self._next_checkpoint = now + CHECKPOINT_EVERY_S
        return True

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * CHECKPOINT_WAIT_S)}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_TIMEOUT_S)}")
        except sqlite3.Error as error:  # e.g. a full disk, which the next writer reports
            LOG.warning("checkpoint", exc_info=error)
