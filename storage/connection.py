"""One database, opened: connections to read and to write with, each with the scope of the store. Knows no rows."""

from __future__ import annotations

import copy
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Connection

from storage.database import file_of, location_of, open_database, parse_url
from storage.errors import StorageError, explained
from storage.scope import SCOPE, Everything, Scope
from storage.writers import PATIENCE, WRITING, checkpoint

SWITCH_S = 0.0005  # after which a busy thread lets one go on that holds the write lock: ten calls a write, 5 ms each by default


class InTurn:
    """A lock that threads get in the order in which they asked: of a ``threading.Lock`` who writes on and on has more than its share."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._threads = deque[threading.Event]()  # the first one has the lock

    def __enter__(self) -> None:
        mine = threading.Event()
        with self._changing:
            self._threads.append(mine)
            if self._threads[0] is mine:
                mine.set()
        mine.wait()

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._threads.popleft()
            if self._threads:
                self._threads[0].set()


class Connected:
    """A database by its URL; its subclasses, one a feature, save and read rows."""

    def __init__(self, url: str | None = None) -> None:
        """Open the database, make its folder and file where missing, and bring its schema up to date."""
        parsed = parse_url(url)
        self.path: Path | None = file_of(parsed)  # None for a server
        self.location: str = location_of(parsed)  # for people; holds no password
        self._engine = open_database(parsed)
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._writing = InTurn()
        self._borrowed = False  # whether another one opened the database, and closes it
        self.scope: Scope = Everything()

    def scoped(self, scope: Scope) -> Self:
        """The same connections and the same lock for writers, with another scope. It need not be closed."""
        narrowed = copy.copy(self)
        narrowed.scope, narrowed._borrowed = scope, True
        return narrowed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; only the store that opened them does."""
        if not self._borrowed:
            self._end()

    def _end(self) -> None:
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection on one unchanging state of the database. Keep it briefly: meanwhile a SQLite file's WAL can only grow."""
        with explained("The database could not be read", self.location), self._engine.connect() as connection:
            connection = connection.execution_options(**{SCOPE: self.scope})
            if self._engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def _write(self, failure: str, patience_s: float = 0.0) -> Iterator[Connection]:
        """A writing transaction. ``patience_s``: how much longer than usual it may wait for those of other processes."""
        if not self.scope.writable:
            raise StorageError(f"{failure}: what a link shows can only be read.")
        with (
            self._writing,
            explained(failure, self.location),
            self._engine.connect().execution_options(
                **{WRITING: True, PATIENCE: patience_s, SCOPE: self.scope}
            ) as connection,
            connection.begin(),
        ):
            yield connection

    def _until_none(self, failure: str, few: Callable[[Connection], int]) -> int:
        """Remove a ``few`` in one short transaction after the other until it returns 0; the sum of what it returned."""
        removed = 0
        while True:
            with self._write(failure) as connection:
                now = few(connection)
            if now == 0:
                break
            removed += now
        if removed:
            checkpoint(self._engine)
        return removed
