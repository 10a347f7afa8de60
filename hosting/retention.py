"""What is too old is removed for good: at the start, and once a day in a thread of its own. Knows dates, and no tables."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from storage import RunStore

LOG = logging.getLogger("mars.retention")
DAY_S = 24 * 3600.0
AGAIN_S = 3600.0  # after a failure
DELETED_FOR = timedelta(days=30)  # how long what was deleted can be brought back
UNFINISHED_FOR = timedelta(days=1)  # a comparison that has no run after so long lost its process


class Retention:
    """Removes what was deleted long ago, comparisons whose process was killed before their first run was saved, and with ``days`` all
    that is older; until stopped. After a failure, which goes to the log, it is tried again in an hour.

    ``now`` and ``wait`` (seconds; whether it is to end) are the clock.
    """

    def __init__(
        self,
        store: RunStore,
        days: int | None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._store, self._days, self._now = store, days, now
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._thread = threading.Thread(target=self.run, name="retention", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """No further work; waits ``seconds`` at most for what is under way, which is whole or not done at all whenever it is cut."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def run(self) -> None:
        """Until stopped; what the thread does."""
        ended = self._ended.is_set()
        while not ended:
            try:
                self._clean(self._now())
                seconds = DAY_S
            except Exception as error:  # tomorrow is another day
                LOG.error("not removed", exc_info=error)
                seconds = AGAIN_S
            ended = self._wait(seconds)

    def _clean(self, now: datetime) -> None:
        self._store.purge(now - DELETED_FOR)
        self._store.remove_unfinished(now - UNFINISHED_FOR)
        if self._days and (count := self._store.expire(now - timedelta(days=self._days))):
            LOG.info("removed", extra={"count": count, "where": f"older than {self._days} days"})
