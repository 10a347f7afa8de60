"""Permanently removes old data at the start and once a day, in a separate thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from storage import RunStore

LOG = logging.getLogger("mars.retention")
DAY_S = 24 * 3600.0
AGAIN_S = 3600.0  # after a failure
DELETED_FOR = timedelta(days=30)  # how long deleted comparisons can be restored
UNFINISHED_FOR = timedelta(days=1)  # older comparisons without a run are removed


class Retention:
    """Removes comparisons deleted long ago, comparisons without a run because their process was
    killed, and with ``days`` everything older than that. Failures are logged and retried after an
    hour. ``now`` and ``wait`` (seconds → whether to stop) can be replaced in tests."""

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
        """Stops; waits at most ``seconds`` for the current transactions, which are atomic."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def run(self) -> None:
        """The body of the thread."""
        ended = self._ended.is_set()
        while not ended:
            try:
                now, seconds = self._now(), DAY_S
                self._store.purge(now - DELETED_FOR)
                self._store.remove_unfinished(now - UNFINISHED_FOR)
                if self._days and (count := self._store.expire(now - timedelta(days=self._days))):
                    LOG.info(
                        "removed", extra={"count": count, "where": f"older than {self._days} days"}
                    )
            except Exception as error:  # retried later
                LOG.error("not removed", exc_info=error)
                seconds = AGAIN_S
            ended = self._wait(seconds)
