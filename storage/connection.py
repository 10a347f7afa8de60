"""One database, opened: connections for reading and writing, each with the scope of the store."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Connection

from storage.database import file_of, location_of, open_database, parse_url
from storage.errors import StorageError, explained
from storage.scope import SCOPE, Everything, Scope
from storage.write_lock import PATIENCE, WRITING, FairLock, checkpoint

SWITCH_S = 0.0005  # interpreter switch interval while the write lock is held; with the default of 5 ms a write takes ten times as long
# How long a read waits for this store's writers: with many readers a writer would get a small share of the interpreter, and all other
# writers wait for it.
WRITERS_FIRST_S = 0.15


class Connected:
    """A database given by its URL; subclasses, one per feature, save and read rows."""

    def __init__(self, url: str | None = None) -> None:
        """Open the database, create its folder and file if missing, and bring its schema up to date."""
        parsed = parse_url(url)
        self.path: Path | None = file_of(parsed)  # None for a server
        self.location: str = location_of(parsed)  # for messages; without the password
        self._engine = open_database(parsed)
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._writing = FairLock()
        self._borrowed = False  # whether another store opened the database and closes it
        self.scope: Scope = Everything()

    def scoped(self, scope: Scope) -> Self:
        """The same connections and the same lock for writers, with another scope. It does not have to be closed."""
        narrowed = copy.copy(self)
        narrowed.scope, narrowed._borrowed = scope, True
        return narrowed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; no effect unless this store opened them."""
        if not self._borrowed:
            self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection with a consistent snapshot of the database. Keep it short: meanwhile a SQLite WAL can only grow."""
        self._writing.let_pass(WRITERS_FIRST_S)
        with explained("The database could not be read", self.location), self._engine.connect() as connection:
            connection = connection.execution_options(**{SCOPE: self.scope})
            if self._engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def _write(self, failure: str, patience_s: float = 0.0) -> Iterator[Connection]:
        """A writing transaction. ``patience_s``: additional seconds to wait for those of other processes."""
        if not self.scope.writable:
            raise StorageError(f"{failure}: a link gives read access only.")
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
        """Call ``few``, which removes some rows, in short transactions until it returns 0; returns the sum."""
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
