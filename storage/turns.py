"""Whose turn it is to write to a SQLite file: a lock of the threads of one process, shared by all
stores of the file, and SQLite's locks among processes."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PAUSE_S = 0.01  # at most, between two attempts to get a lock of SQLite


class Turns:
    """A lock that is granted in order of request, each time until a deadline; ``threading.Lock``
    can starve other writers."""

    def __init__(self) -> None:
        self._changed, self._queue = threading.Condition(), deque[object]()  # the first one has it

    @contextmanager
    def taken(self, until: float) -> Iterator[None]:
        """Take a turn, ``until`` then by the monotonic clock. Raises sqlite3.OperationalError then.
        An exception while waiting leaves nothing behind."""
        request = object()
        try:
            with self._changed:
                self._queue.append(request)
                if not self._changed.wait_for(
                    lambda: self._queue[0] is request, until - time.monotonic()
                ):
                    raise sqlite3.OperationalError("database is locked")
            yield
        finally:
            with self._changed:
                if request in self._queue:
                    self._queue.remove(request)
                self._changed.notify_all()


def patiently(call: Callable[[], Any], until: float) -> None:
    """``call`` until SQLite's locks permit it; raises sqlite3.OperationalError after ``until``.
    SQLite itself would try ever more rarely, at last every 0.1 s, so that beside many others a
    process that has waited long would hardly get its turn."""
    while True:
        try:
            call()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(random.uniform(0, PAUSE_S))


_OF_FILES: dict[tuple[Path, int], Turns] = {}


def turns_of(path: Path) -> Turns:
    """Return the lock of this file (its resolved path) in this process; a forked child has its own,
    since no thread would release the parent's."""
    return _OF_FILES.setdefault((path, os.getpid()), Turns())
