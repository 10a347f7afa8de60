"""One database, opened: connections to read and to write with. Knows no tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from platformdirs import user_data_path
from sqlalchemy import URL, Connection

from storage.database import WRITING, begin, file_of, location_of, open_database, parse_url
from storage.errors import explained


class Connected:
    """A database by its URL; what keeps runs and studies in it are the subclasses."""

    def __init__(self, url: str | None = None) -> None:
        """Open the database, make its folder and file where missing, and bring its schema up to date."""
        parsed = default_url() if url is None else parse_url(url)
        self.path: Path | None = file_of(parsed)  # None for a server
        self.location: str = location_of(parsed)  # for people; holds no password
        self._engine = open_database(parsed)
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection on one unchanging state of the database. Keep it briefly: on SQLite it holds up writers."""
        with explained("The database could not be read", self.location), self._engine.connect() as connection:
            if self._engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def _write(self, failure: str, patience_s: float = 0.0) -> Iterator[Connection]:
        """A writing transaction. ``patience_s``: how much longer than usual it may wait for those of other processes."""
        with (
            self._writing,
            explained(failure, self.location),
            self._engine.connect().execution_options(**{WRITING: True}) as connection,
            begin(connection, patience_s),
        ):
            yield connection


def default_url() -> URL:
    """The SQLite file in this user's data folder."""
    return URL.create("sqlite", database=str(user_data_path("mars-playground", appauthor=False) / "runs.db"))
