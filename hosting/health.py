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
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

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
Probe = Callable[[], str]


def health_routes(
    needed: Mapping[str, Probe],
    information: Mapping[str, Probe] | None = None,
    *,
    patience_s: float = PATIENCE_S,
    fresh_s: float = FRESH_S,
) -> list[BaseRoute]:
    """Probes by the name of what they look at. ``needed``: any sentence makes the page unready; ``information``: shown beside."""
    probes = {name: _CachedProbe(name, probe, fresh_s) for name, probe in {**needed, **(information or {})}.items()}
    ready = _Ready(probes, tuple(needed), patience_s)
    return [Route("/health", _alive, name="health"), Route("/ready", ready.answer, name="ready")]


async def _alive(_request: Request) -> JSONResponse:
    """Waits for nothing, so it answers as long as the server's loop does."""
    return _json({"alive": True}, 200)


class _Ready:
    """Calls all probes at once, and logs when the answer changes."""

    def __init__(self, probes: Mapping[str, _CachedProbe], needed: tuple[str, ...], patience_s: float) -> None:
        self._probes, self._needed, self._patience_s = probes, needed, patience_s
        self._was: bool | None = None

    async def answer(self, _request: Request) -> JSONResponse:
        futures = {name: asyncio.wrap_future(probe.call()) for name, probe in self._probes.items()}
        if futures:
            await asyncio.wait(futures.values(), timeout=self._patience_s)
        results = {
            name: future.result() if future.done() else f"The {name} gave no answer within {self._patience_s:g} s."
            for name, future in futures.items()
        }
        reasons = [results[name] for name in self._needed if results[name]]
        self._log_change(reasons)
        information = {name: text for name, text in results.items() if name not in self._needed}
        return _json({"ready": not reasons, "reasons": reasons, **information}, 503 if reasons else 200)

    def _log_change(self, reasons: list[str]) -> None:
        if self._was is not (not reasons) and (reasons or self._was is not None):
            LOG.log(logging.WARNING if reasons else logging.INFO, " ".join(reasons) or "Ready.")
        self._was = not reasons


class _CachedProbe:
    """A probe in a thread of its own, never twice at once: requests meanwhile and shortly after get the same answer."""

    def __init__(self, name: str, probe: Probe, fresh_s: float) -> None:
        self._name, self._probe, self._fresh_s = name, probe, fresh_s
        self._ended = -math.inf  # seconds of the monotonic clock
        self._lock = threading.Lock()
        self._running: Future[str] | None = None

    def call(self) -> Future[str]:
        with self._lock:
            old = time.monotonic() - self._ended > self._fresh_s
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


def _json(value: Mapping[str, object], status: int) -> JSONResponse:
    return JSONResponse(dict(value), status_code=status, headers={"Cache-Control": "no-store"})


def database_probe(store: RunStore) -> Callable[[], str]:
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
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", LOCKED_S, uri=True, isolation_level=None)
        ) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute("ROLLBACK")
    except sqlite3.Error as error:
        LOG.warning("database", exc_info=error, extra={"state": getattr(error, "sqlite_errorname", "")})
        return LOCKED if "locked" in str(error) else WRITING
    return ""


class Pool(Protocol):
    """What is asked of the models in memory."""

    def loaded(self) -> tuple[object, ...]: ...


@dataclass(slots=True)
class PairProbe:
    """Ready once a pair was loaded. Whoever loads the first pair reports where it failed."""

    pool: Pool
    failed: bool = False
    ready: bool = False

    def fail(self) -> None:
        self.failed = True

    def __call__(self) -> str:
        self.ready = self.ready or bool(self.pool.loaded())
        return "" if self.ready else NO_PAIR if self.failed else LOADING


@dataclass(frozen=True, slots=True)
class Ending:
    """Set once the page is about to end, so that a proxy sends nobody any more."""

    event: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        self.event.set()

    def __call__(self) -> str:
        return "The page is shutting down." if self.event.is_set() else ""
