"""One database, opened: connections for reading and writing, each with the scope of the store."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Connection

from storage import database
from storage.database import UNTIL, file_of, location_of, open_database, parse_url
from storage.errors import StorageError, explained
from storage.journal import Emptying
from storage.scope import SCOPE, Everything, Scope
from storage.turns import Turns, turns_of

_NOT_READ = "The database could not be read"


class Connected:
    """A database given by its URL; subclasses, one per feature, save and read rows."""

    def __init__(self, url: str | None = None) -> None:
        """Open the database, create its folder and file if missing, and bring its schema up to
        date."""
        parsed = parse_url(url)
        self.path: Path | None = file_of(parsed)  # None for a server
        self.location: str = location_of(parsed)  # for messages; without the password
        self._engine = open_database(parsed)
        self._writing = turns_of(self.path) if self.path else Turns()
        self._emptying = Emptying(self._engine)
        self._processes = {
            os.getpid()
        }  # that may use its connections: none after its end, and no forked child
        self._borrowed = False  # whether another store opened the database and closes it
        self.scope: Scope = Everything()

    def scoped(self, scope: Scope) -> Self:
        """The same connections and the same lock for writers, with another scope. It does not have
        to be closed."""
        narrowed = copy.copy(self)
        narrowed.scope, narrowed._borrowed = scope, True
        return narrowed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; no effect unless this store opened them. Threads that use it
        get a StorageError."""
        if not self._borrowed:
            self._processes.clear()
            self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection with a consistent snapshot of the database. Keep it short: on SQLite writers
        wait for it."""
        self._check_open(_NOT_READ)
        with self._reading(), self._engine.connect() as connection:
            connection = connection.execution_options(**{SCOPE: self.scope})
            if self._engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def _reading(self) -> AbstractContextManager[None]:
        """Explains errors while what was read is unpacked, after the transaction."""
        return explained(_NOT_READ, self.location)

    @contextmanager
    def _write(self, failure: str, patience_s: float = 0.0) -> Iterator[Connection]:
        """A writing transaction. ``patience_s``: additional seconds to wait for others."""
        if not self.scope.writable:
            raise StorageError(f"{failure}: a link gives read access only.")
        self._check_open(failure)
        until = time.monotonic() + database.BUSY_TIMEOUT_S + patience_s
        options = {UNTIL: until, SCOPE: self.scope}
        with (
            explained(failure, self.location),
            self._writing.taken(until),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    def _check_open(self, failure: str) -> None:
        if os.getpid() not in self._processes:
            raise StorageError(
                f"{failure}: it was closed, or opened before this process was forked "
                f"({self.location})."
            )

    def _until_none(self, failure: str, few: Callable[[Connection], int]) -> int:
        """Call ``few``, which removes some rows, in short transactions until it returns 0; returns
        the sum."""
        removed = 0
        while True:
            with self._write(failure) as connection:
                now = few(connection)
            if now == 0:
                break
            removed += now
        if removed:
            self._emptying.begin()
        return removed
