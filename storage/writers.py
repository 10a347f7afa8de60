"""The writing transactions and checkpoints of a SQLite engine: under the lock of storage/write_lock.py if available."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from storage import write_lock

LOG = logging.getLogger("mars.storage")
WRITING = "mars_writing"  # execution option of writing connections
PATIENCE = "mars_patience"  # execution option: seconds that a writer may wait for others in addition to the usual ones
LARGE_WAL = 64 * 2**20  # bytes, from which a full checkpoint waits for readers
CHECKPOINT_WAIT_S, CHECKPOINT_EVERY_S = 0.1, 10.0  # how long a writer waits for readers, and how often
_FULL_CHECKPOINT, _LOCK_FILE = "mars_whole", "mars_held"  # keys of a pooled connection's info


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
    """Begins the transactions of an engine on ``path``. Writers hold the write lock until their connection is returned.

    ``busy_s``: how long a writer waits for others.
    """

    def __init__(self, path: Path, busy_s: Callable[[], float]) -> None:
        self._busy_s = busy_s
        self._lock, self._wal = write_lock.lock_file(path), Path(f"{path}-wal")
        self._next_checkpoint = 0.0  # by the monotonic clock

    def begin(self, connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get(WRITING):
            connection.exec_driver_sql("BEGIN")
            return
        seconds = self._busy_s() + options.get(PATIENCE, 0.0)
        if self._lock and _LOCK_FILE not in connection.info:
            connection.info[_LOCK_FILE] = write_lock.acquire(self._lock, seconds)
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
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * self._busy_s())}")
        except sqlite3.Error as error:  # e.g. a full disk, which the next writer reports
            LOG.warning("checkpoint", exc_info=error)
