"""``/health``: the process answers. ``/ready``: visitors can be served, and if not, why.

A probe returns one sentence of what is wrong, or nothing; it is called from a thread of its own, and may take its time. Both answers are
for anybody, so a probe's sentence names no path and no visitor; what a probe raises goes to the log alone.
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
FRESH_S = 1.0  # an answer is given again for so long, however many ask
LOCKED_S = 0.8  # how long another writer may hold the file
ROOM = 32 * 2**20  # bytes of disk that a few comparisons, their journal and a snapshot take
READING = "The database cannot be read."
WRITING = "The database cannot be written."
LOCKED = "The database is held by another writer."
FULL = "The disk of the database is full."
TEMPORARY = "The database cannot be used; runs are stored in a temporary file and are lost when the page stops."
LOADING = "The models are being loaded."
NO_PAIR = "No pair of models could be loaded."
ENDING = "The page is shutting down."
NO_STORE = {"Cache-Control": "no-store"}
Probe = Callable[[], str]


def health_routes(needed: Mapping[str, Probe], information: Mapping[str, Probe] | None = None) -> list[BaseRoute]:
    """Probes by the name of what they look at. ``needed``: any sentence makes the page unready; ``information``: shown beside."""
    probes = {name: _CachedProbe(name, probe) for name, probe in {**needed, **(information or {})}.items()}
    was_ready = True

    async def ready(_request: Request) -> JSONResponse:
        nonlocal was_ready
        futures = {name: asyncio.wrap_future(probe.call()) for name, probe in probes.items()}
        if futures:
            await asyncio.wait(futures.values(), timeout=PATIENCE_S)
        results = {
            name: future.result() if future.done() else f"The {name} gave no answer within {PATIENCE_S:g} s."
            for name, future in futures.items()
        }
        shown = {name: results.pop(name) for name in information or {}}
        reasons = [result for result in results.values() if result]
        if was_ready is bool(reasons):  # only changes are logged
            LOG.log(logging.WARNING if reasons else logging.INFO, " ".join(reasons) or "Ready.")
        was_ready = not reasons
        return JSONResponse({"ready": was_ready, "reasons": reasons, **shown}, 200 if was_ready else 503, NO_STORE)

    return [Route("/health", _alive, name="health"), Route("/ready", ready, name="ready")]


async def _alive(_request: Request) -> JSONResponse:
    """Waits for nothing, so it answers as long as the server's loop does."""
    return JSONResponse({"alive": True}, headers=NO_STORE)


class _CachedProbe:
    """A probe in a thread of its own, never twice at once: requests meanwhile and shortly after get the same answer."""

    def __init__(self, name: str, probe: Probe) -> None:
        self._name, self._probe = name, probe
        self._ended = -math.inf  # seconds of the monotonic clock
        self._running: Future[str] | None = None

    def call(self) -> Future[str]:
        """To be called from one thread, that of the server's loop."""
        old = time.monotonic() - self._ended > FRESH_S
        if self._running is None or (self._running.done() and old):
            self._running = Future()
            name = f"probe {self._name}"
            threading.Thread(target=self._run, args=[self._running], name=name, daemon=True).start()
        return self._running

    def _run(self, future: Future[str]) -> None:
        try:
            result = self._probe()
        except Exception as error:  # a probe that breaks is an answer, too
            LOG.error("probe", exc_info=error, extra={"where": self._name})
            result = f"The {self._name} does not answer as it should; the log says more."
        self._ended = time.monotonic()
        future.set_result(result)


def database_probe(store: RunStore) -> Probe:
    """Reads, and begins to write to the file; nothing is changed. A server (PostgreSQL) is only read from."""

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
    if shutil.disk_usage(path.parent).free < ROOM:
        return FULL
    try:
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, LOCKED_S, uri=True, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute("ROLLBACK")
    except sqlite3.Error as error:
        LOG.warning("database", exc_info=error, extra={"state": getattr(error, "sqlite_errorname", "")})
        return LOCKED if "locked" in str(error) else WRITING
    return ""


class PairProbe:
    """Ready once a pair was loaded. Whoever loads the first pair calls ``fail`` where that failed. ``loaded``: the pairs in memory."""

    def __init__(self, loaded: Callable[[], Sequence[object]]) -> None:
        self._loaded, self._ready, self._reason = loaded, False, LOADING

    def fail(self) -> None:
        self._reason = NO_PAIR

    def __call__(self) -> str:
        self._ready = self._ready or bool(self._loaded())
        return "" if self._ready else self._reason
