"""One database, opened: connections for reading and writing, each with the scope of the store."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, RowMapping, Select
from sqlalchemy.orm import InstrumentedAttribute

from storage import database
from storage.database import UNTIL, file_of, location_of, open_database, parse_url
from storage.errors import UNREADABLE, StorageError, explained, is_damage
from storage.journal import Emptying
from storage.scope import IN_A_STATEMENT, SCOPE, Everything, Scope
from storage.turns import Turns, turns_of

MOST_NAMED = 100  # damaged rows that are remembered
LOG = logging.getLogger("mars.storage")
NOT_READ = "The database could not be read"
T = TypeVar("T")
Key = TypeVar("Key", str, int)


class Connected:
    """A database given by its URL; subclasses, one per feature, save and read rows."""

    def __init__(self, url: str | None = None) -> None:
        """Open the database, create its folder and file if missing, and bring its schema up to
        date."""
        parsed = parse_url(url)
        self.path: Path | None = file_of(parsed)  # None for a server
        self.location: str = location_of(parsed)  # for messages; without the password
        # the warning is for /ready
        self._engine, self.warning = open_database(parsed)
        self._writing = turns_of(self.path) if self.path else Turns()
        self._emptying = Emptying(self._engine)
        self._processes = {
            os.getpid()
        }  # that may use its connections: none after its end, and no forked child
        self._borrowed = False  # whether another store opened the database and closes it
        self.scope: Scope = Everything()
        # Rows that could not be read, each with the reason: of all stores of this database since it
        # was opened, and of this store.
        self.damaged: dict[str, str] = {}
        self.left_out = self.damaged

    def scoped(self, scope: Scope) -> Self:
        """Return the same connections and the same lock for writers, with another scope. It does
        not have to be closed."""
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
        """Open a connection with a consistent snapshot of the database. Keep it short: on SQLite
        writers wait for it."""
        self._check_open(NOT_READ)
        with explained(NOT_READ, self.location), self._engine.connect() as connection:
            connection = connection.execution_options(**{SCOPE: self.scope})
            if self._engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def intact(
        self, read: Callable[[list[Key]], Iterable[T]], what: str, keys: Sequence[Key]
    ) -> list[T]:
        """Return what ``read`` gives for these keys, of which it gets some at a time. Where it meets
        a damaged row, what it gives for all others; ``what`` with its key names the one."""
        if len(keys) <= IN_A_STATEMENT:
            try:
                return [*read([*keys])]
            except (StorageError, *UNREADABLE) as error:
                if not is_damage(error):
                    raise
                if len(keys) < 2:
                    self._note(f"{what} {ascii(keys[0]).strip(chr(39))}", error)
                    return []
        half = len(keys) // 2
        return [
            each for some in (keys[:half], keys[half:]) for each in self.intact(read, what, some)
        ]

    def rows(
        self,
        statement: Select[*tuple[Any, ...]],
        key: InstrumentedAttribute[Key],
        what: str,
        make: Callable[[RowMapping], T],
        keys: Sequence[Key] | None = None,
    ) -> list[T]:
        """Return ``make`` of every row of ``statement``, or of those with one of ``keys``, some at a
        time, in their order; without damaged rows, which ``what`` with the ``key`` names."""

        def read(some: list[Key]) -> Iterable[T]:
            with self.read() as connection:
                rows = connection.execute(statement.limit(None).where(key.in_(some)))
                return map(make, rows.mappings().all())

        if keys is not None:
            return self.intact(read, what, keys)
        with self.read() as connection:
            there = connection.scalars(statement.with_only_columns(key)).all()
        return self.intact(read, what, list(dict.fromkeys(there)))

    @contextmanager
    def _naming(self, what: str) -> Iterator[None]:
        """Say which object could not be read where a row of it is damaged."""
        try:
            yield
        except (StorageError, *UNREADABLE) as error:
            if not is_damage(error):
                raise
            self._note(what, error)
            cause = error.__cause__ if isinstance(error, StorageError) else error
            raise StorageError(f"The {what} cannot be read: {_readable(cause)}.") from cause

    def _note(self, name: str, error: Exception) -> None:
        if name not in self.damaged:
            reason = _readable(error.__cause__ or error)
            LOG.warning("The %s cannot be read; it is left out: %s", name, reason)
        for names in (self.damaged, self.left_out):
            if len(names) < MOST_NAMED:
                names[name] = type(error.__cause__ or error).__name__

    @contextmanager
    def _write(self, failure: str, patience_s: float = 0.0) -> Iterator[Connection]:
        """Open a writing transaction. ``patience_s``: additional seconds to wait for others."""
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


def _readable(cause: BaseException | None) -> str:
    """Return the reason without the bytes of a damaged text, which no log could be written with."""
    return str(cause).encode("ascii", "backslashreplace").decode()
