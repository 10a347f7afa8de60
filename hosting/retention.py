"""What is too old is removed for good: at the start and once a day, in a thread of its own. Knows dates, and whom to tell; no tables."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

LOG = logging.getLogger("mars.retention")
DAY_S = 24 * 3600.0
AGAIN_S = 3600.0  # after a failure
Remove = Callable[[datetime], int]  # everything from before; how many comparisons that were


def clean(remove: Remove, days: int, now: datetime | None = None) -> int:
    """Remove what is more than ``days`` old. Raises ValueError, and whatever ``remove`` raises."""
    if days < 1:
        raise ValueError(f"days is {days}; it must be at least 1.")
    count = remove((now or datetime.now(UTC)) - timedelta(days=days))
    if count:
        LOG.info("removed", extra={"count": count, "where": f"older than {days} days"})
    return count


class Daily:
    """Runs ``work`` at the start and once a day until stopped; after a failure, which goes to the log, again in an hour."""

    def __init__(self, work: Callable[[], object], *, every_s: float = DAY_S, again_s: float = AGAIN_S) -> None:
        self._work, self._every_s, self._again_s = work, every_s, again_s
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
            self._ended.wait(self._every_s if self._worked() else self._again_s)

    def _worked(self) -> bool:
        try:
            self._work()
        except Exception as error:  # tomorrow is another day
            LOG.error("not removed", exc_info=error)
            return False
        return True
