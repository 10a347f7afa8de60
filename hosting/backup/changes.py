"""Whether a SQLite file was written to since one looked last, by SQLite's own count. Knows no tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class Changes:
    """Used by one thread. Holds a connection open, but no transaction: it is in nobody's way."""

    def __init__(self, database: Path) -> None:
        self._uri = f"{database.absolute().as_uri()}?mode=ro"
        self._connection: sqlite3.Connection | None = None
        self._known: int | None = None

    def look(self) -> int | None:
        """The count of now; None where it cannot be read."""
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._uri, uri=True, isolation_level=None)
            (count,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            self.close()
            return None
        return int(count)

    def since(self) -> bool:
        """Whether there is something that ``note`` was not told; True where that is not known."""
        count = self.look()
        return count is None or count != self._known

    def note(self, count: int | None) -> None:
        """What was there when ``look`` gave ``count`` is known."""
        self._known = count

    def close(self) -> None:
        """Close the connection; a later look opens another, whose count begins anew."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._known = None
