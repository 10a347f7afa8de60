"""Permanently removes old data at the start and once a day, in a separate thread."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

from storage import RunStore

LOG = logging.getLogger("mars.retention")
DAY_S = 24 * 3600.0
AGAIN_S = 3600.0  # after a failure
DELETED_FOR = timedelta(days=30)  # how long deleted comparisons can be restored
UNFINISHED_FOR = timedelta(days=1)  # older comparisons without a run are removed


def remove_old(store: RunStore, days: int | None, now: datetime) -> float:
    """Removes comparisons deleted long ago, comparisons without a run because their process was
    killed, and with ``days`` everything older than that. Failures are logged. Returns the seconds
    until the next time."""
    try:
        store.purge(now - DELETED_FOR)
        store.remove_unfinished(now - UNFINISHED_FOR)
        if days and (count := store.expire(now - timedelta(days=days))):
            LOG.info("removed", extra={"count": count, "where": f"older than {days} days"})
    except Exception as error:  # retried later
        LOG.error("not removed", exc_info=error)
        return AGAIN_S
    return DAY_S


def keep_removing(store: RunStore, days: int | None, ended: threading.Event) -> None:
    """Call ``remove_old`` until it has ``ended``. Its transactions are atomic: a process may end in
    one."""
    seconds = 0.0
    while not ended.wait(seconds):
        seconds = remove_old(store, days, datetime.now(UTC))
