"""Whose turn it is to write to a database: a lock of the threads of one process, shared by all stores of a file. Other processes are
kept out by the database itself."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """A lock that is granted in order of request, each time until a deadline; ``threading.Lock`` can starve other writers."""

    def __init__(self) -> None:
        self._changed, self._queue = threading.Condition(), deque[object]()  # the first one has it

    @contextmanager
    def taken(self, until: float) -> Iterator[None]:
        """``until``: by the monotonic clock. Raises sqlite3.OperationalError then. An exception while waiting leaves nothing behind."""
        mine = object()
        try:
            with self._changed:
                self._queue.append(mine)
                if not self._changed.wait_for(lambda: self._queue[0] is mine, until - time.monotonic()):
                    raise sqlite3.OperationalError("database is locked")
            yield
        finally:
            with self._changed:
                if mine in self._queue:
                    self._queue.remove(mine)
                self._changed.notify_all()

    def let_pass(self, seconds: float) -> None:
        """Wait until nobody has it or waits for it, at most ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue, seconds)


_OF_FILES: dict[tuple[Path, int], Turns] = {}


def turns_of(path: Path) -> Turns:
    """The lock of this file (its resolved path) in this process; a forked child has its own, since no thread would release the parent's."""
    return _OF_FILES.setdefault((path, os.getpid()), Turns())
