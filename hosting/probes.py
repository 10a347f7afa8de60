"""What ``/ready`` asks: whether the database answers, whether a pair of models can run, whether the page is about to end.

Each is called from a thread of its own, and may take its time. Sentences are for anybody: no path, no name of a visitor.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from storage import RunStore, StorageError

LOG = logging.getLogger("mars.health")
LOCKED_S = 0.8  # how long another writer may hold the file
ROOM = 32 * 2**20  # bytes of disk that a few comparisons, their journal and a snapshot take
READING = "The database cannot be read."
WRITING = "The database cannot be written."
LOCKED = "The database is held by another writer."
FULL = "The disk of the database is full."


def database_probe(store: RunStore) -> Callable[[], str]:
    """Reads, and begins to write to the file; nothing is changed. A server (PostgreSQL) is only read from."""

    def probe() -> str:
        try:
            store.count()
        except StorageError as error:
            LOG.warning("database", exc_info=error)
            return READING
        return _file(store.path) if store.path is not None else ""

    return probe


def _file(path: Path) -> str:
    if shutil.disk_usage(path.parent).free < ROOM:
        return FULL
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", LOCKED_S, uri=True, isolation_level=None)
        ) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute("ROLLBACK")
    except sqlite3.Error as error:
        LOG.warning("database", exc_info=error, extra={"state": getattr(error, "sqlite_errorname", "")})
        return LOCKED if "locked" in str(error) else WRITING
    return ""


class Pool(Protocol):
    """What is asked of the models in memory."""

    def loaded(self) -> tuple[object, ...]: ...


@dataclass(slots=True)
class PairProbe:
    """Ready while a pair is loaded, or while nothing has said that none can be. Whoever loads the first pair reports how that went."""

    pool: Pool
    failed: bool = False

    def fail(self) -> None:
        self.failed = True

    def __call__(self) -> str:
        return "No pair of models could be loaded." if self.failed and not self.pool.loaded() else ""


@dataclass(frozen=True, slots=True)
class Ending:
    """Set once the page is about to end, so that a proxy sends nobody any more."""

    event: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        self.event.set()

    def __call__(self) -> str:
        return "The page is shutting down." if self.event.is_set() else ""
