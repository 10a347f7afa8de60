"""``/health``: the process responds. ``/ready``: whether visitors can be served, and if not, why.

A probe returns one sentence about a problem, or an empty string; it runs in a separate thread and
may be slow. Both responses are public, so a probe's sentence has no path and no visitor; exceptions
of a probe are only logged.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from storage import RunStore, StorageError, TemporaryStore

LOG = logging.getLogger("mars.health")
PATIENCE_S = 1.0  # for all probes together
FRESH_S = 1.0  # lifetime of a cached result
LOCKED_S = 0.8  # how long to wait for another writer
MIN_FREE_BYTES = 32 * 2**20  # disk space for a few comparisons, their journal and a snapshot
READING = "The database cannot be read."
WRITING = "The database cannot be written."
LOCKED = "The database is held by another writer."
FULL = "The disk of the database is full."
TEMPORARY = "The database cannot be used; runs are stored in a temporary file and are lost when the page stops."
LOADING = "The models are being loaded."
LONG_S = 600.0  # of loading the first pair
LATE = f"No pair of models has been loaded for more than {LONG_S / 60:g} minutes."
NO_PAIR = "No pair of models could be loaded."
ENDING = "The page is shutting down."
NO_STORE = {"Cache-Control": "no-store"}
Probe = Callable[[], str]


def health_routes(
    needed: Mapping[str, Probe], information: Mapping[str, Probe] | None = None
) -> list[BaseRoute]:
    """Probes by name. ``needed``: the first sentence makes the page unready; ``information``: only
    displayed."""
    readiness = _Readiness(needed, information or {})
    return [
        Route("/health", _alive, name="health"),
        Route("/ready", readiness.answer, name="ready"),
    ]


async def _alive(_request: Request) -> JSONResponse:
    """Responds without waiting, as long as the server's event loop runs."""
    return JSONResponse({"alive": True}, headers=NO_STORE)


class _Readiness:
    """Asks all probes in a thread, once at a time: requests meanwhile and within FRESH_S share the
    result."""

    def __init__(self, needed: Mapping[str, Probe], information: Mapping[str, Probe]) -> None:
        self._needed, self._information = needed, information
        self._asked, self._was_ready = "page", True  # the probe that was asked last
        self._ended = -math.inf  # seconds of the monotonic clock
        self._running: Future[tuple[str, dict[str, str]]] | None = None

    async def answer(self, _request: Request) -> JSONResponse:
        running = self._running
        if running is None or (running.done() and time.monotonic() - self._ended > FRESH_S):
            running = self._running = Future()
            threading.Thread(
                target=self._ask_all, args=[running], name="ready", daemon=True
            ).start()
        await asyncio.wait([asyncio.wrap_future(running)], timeout=PATIENCE_S)
        late = f"The {self._asked} did not respond within {PATIENCE_S:g} s."
        reason, facts = running.result() if running.done() else (late, {})
        if self._was_ready is bool(reason):  # only changes are logged
            LOG.log(logging.WARNING if reason else logging.INFO, reason or "Ready.")
        self._was_ready = not reason
        content = {"ready": not reason, "reason": reason, **facts}
        return JSONResponse(content, 503 if reason else 200, NO_STORE)

    def _ask_all(self, future: Future[tuple[str, dict[str, str]]]) -> None:
        reasons = (self._ask(name, probe) for name, probe in self._needed.items())
        reason = next(filter(None, reasons), "")
        facts = {name: self._ask(name, probe) for name, probe in self._information.items()}
        self._ended = time.monotonic()
        future.set_result((reason, facts))

    def _ask(self, name: str, probe: Probe) -> str:
        self._asked = name
        try:
            return probe()
        except Exception as error:  # a failing probe is a result too
            LOG.error("probe", exc_info=error, extra={"where": name})
            return f"The {name} could not be checked; see the log."


def database_probe(store: RunStore) -> Probe:
    """Return a probe that reads, and starts a write without changes. A server (PostgreSQL) is only
    read."""

    def probe() -> str:
        if isinstance(store, TemporaryStore):
            return TEMPORARY
        try:
            store.count()
        except StorageError as error:
            LOG.warning("database", exc_info=error)
            return READING
        return _file(store.path) if store.path is not None else ""

    return probe


def _file(path: Path) -> str:
    if shutil.disk_usage(path.parent).free < MIN_FREE_BYTES:
        return FULL
    try:
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, LOCKED_S, uri=True, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute("ROLLBACK")
    except sqlite3.Error as error:
        LOG.warning(
            "database", exc_info=error, extra={"state": getattr(error, "sqlite_errorname", "")}
        )
        return LOCKED if "locked" in str(error) else WRITING
    return ""


class PairProbe:
    """Ready once a pair has been loaded; call ``fail`` if loading the first pair failed.
    ``loaded``: the pairs in memory."""

    def __init__(self, loaded: Callable[[], Sequence[object]]) -> None:
        self._loaded, self._ready, self._failed, self._began = (
            loaded,
            False,
            False,
            time.monotonic(),
        )

    def fail(self) -> None:
        self._failed = True

    def __call__(self) -> str:
        self._ready = self._ready or bool(self._loaded())
        if self._ready or self._failed:
            return "" if self._ready else NO_PAIR
        return LATE if time.monotonic() - self._began > LONG_S else LOADING
