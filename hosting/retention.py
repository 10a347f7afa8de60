"""What is too old is removed for good: at the start, and once a day in a thread of its own. Knows dates, and no tables."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from storage import RunStore, StorageError

LOG = logging.getLogger("mars.retention")
DAY_S = 24 * 3600.0
AGAIN_S = 3600.0  # after a failure
DELETED_FOR = timedelta(days=30)  # how long what was deleted can be brought back
UNFINISHED_FOR = timedelta(days=1)  # a comparison that has no run after so long lost its process


def tidy(store: RunStore) -> None:
    """Remove what was deleted long ago, and comparisons whose process was killed before their first run was saved."""
    try:
        store.purge(datetime.now(UTC) - DELETED_FOR)
        store.remove_unfinished(datetime.now(UTC) - UNFINISHED_FOR)
    except StorageError as error:
        LOG.warning(str(error))


class Retention:
    """Removes what is more than ``days`` old until stopped; after a failure, which goes to the log, again in an hour.

    ``remove``: everything from before a moment; returns how many comparisons that were.
    """

    def __init__(self, remove: Callable[[datetime], int], days: int) -> None:
        self._remove, self._days = remove, days
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """No further work; waits ``seconds`` at most for what is under way, which is whole or not done at all whenever it is cut."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._clean()
                self._ended.wait(DAY_S)
            except Exception as error:  # tomorrow is another day
                LOG.error("not removed", exc_info=error)
                self._ended.wait(AGAIN_S)

    def _clean(self) -> None:
        if count := self._remove(datetime.now(UTC) - timedelta(days=self._days)):
            LOG.info("removed", extra={"count": count, "where": f"older than {self._days} days"})
