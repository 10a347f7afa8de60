"""The writing transactions and checkpoints of a SQLite engine: under the lock of storage/write_lock.py where there is one."""

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
WRITING = "mars_writing"  # execution option of connections that are going to write
PATIENCE = "mars_patience"  # execution option: seconds that a writer may wait for others in addition to the usual ones
LARGE_WAL = 64 * 2**20  # bytes, from which readers have to make room for a whole checkpoint
ROOM_S, ROOM_EVERY_S = 0.1, 10.0  # how long a writer waits for such readers, and how often
_WHOLE, _HELD = "mars_whole", "mars_held"  # of a pooled connection: to be checkpointed; the locked file


def checkpoint(engine: Engine) -> None:
    """Bring all of a WAL into the file and empty it, so that what was removed is in neither. Where others hold it up, it stays as it is."""
    if engine.dialect.name != "sqlite":
        return
    try:
        with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            connection.info[_WHOLE] = True
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        LOG.warning("checkpoint", exc_info=error)


class Writers:
    """Begins the transactions of an engine on ``path``. One that writes has the write lock until its connection is given back.

    ``busy_s``: how long a writer waits for others.
    """

    def __init__(self, path: Path, busy_s: Callable[[], float]) -> None:
        self._busy_s = busy_s
        self._lock, self._wal = write_lock.lock_file(path), Path(f"{path}-wal")
        self._next_room = 0.0  # by the monotonic clock

    def begin(self, connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get(WRITING):
            connection.exec_driver_sql("BEGIN")
            return
        seconds = self._busy_s() + options.get(PATIENCE, 0.0)
        if self._lock and _HELD not in connection.info:
            connection.info[_HELD] = write_lock.acquire(self._lock, seconds)
        elif not self._lock:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * seconds)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def end(self, connection: sqlite3.Connection | None, record: Any) -> None:
        """The transaction is over; automatic checkpoints, a part of COMMIT, leave alone what readers need."""
        whole, held = record.info.pop(_WHOLE, False), record.info.pop(_HELD, None)
        try:
            if connection is not None and (whole or (held is not None and self._too_large())):
                self._checkpoint(connection)
        finally:
            if held is not None:
                os.close(held)

    def close(self, _engine: Engine) -> None:
        if self._lock:
            write_lock.remove(self._lock)

    def _too_large(self) -> bool:
        now = time.monotonic()
        if now < self._next_room or not self._wal.exists() or self._wal.stat().st_size < LARGE_WAL:
            return False
        self._next_room = now + ROOM_EVERY_S
        return True

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * ROOM_S)}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * self._busy_s())}")
        except sqlite3.Error as error:  # a full disk, say: the next writer hears of it
            LOG.warning("checkpoint", exc_info=error)
