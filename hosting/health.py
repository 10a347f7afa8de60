"""``/health``: the process answers. ``/ready``: visitors can be served, and if not, why. Knows no page and no database, only probes.

A probe returns one sentence of what is wrong, or nothing. Both answers are for anybody, so a probe's sentence names no path and no
visitor; what a probe raises goes to the log alone.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

LOG = logging.getLogger("mars.health")
PATIENCE_S = 1.0  # for all probes together
FRESH_S = 1.0  # an answer is given again for so long, however many ask
Probe = Callable[[], str]


def health_routes(
    needed: Mapping[str, Probe],
    information: Mapping[str, Probe] | None = None,
    *,
    patience_s: float = PATIENCE_S,
    fresh_s: float = FRESH_S,
) -> list[BaseRoute]:
    """``needed``: probes by the name of what they look at; any one that speaks makes the page unready. ``information``: told, no more."""
    asked = {name: _Patient(name, probe, fresh_s) for name, probe in {**needed, **(information or {})}.items()}
    ready = _Ready(asked, tuple(needed), patience_s)
    return [Route("/health", _alive, name="health"), Route("/ready", ready.answer, name="ready")]


async def _alive(_request: Request) -> JSONResponse:
    """Asks nothing and waits for nobody, so it answers as long as the server's loop does."""
    return _json({"alive": True}, 200)


class _Ready:
    """Asks all probes at once, and logs when the answer changes."""

    def __init__(self, asked: Mapping[str, _Patient], needed: tuple[str, ...], patience_s: float) -> None:
        self._asked, self._needed, self._patience_s = asked, needed, patience_s
        self._was: bool | None = None

    async def answer(self, _request: Request) -> JSONResponse:
        futures = {name: asyncio.wrap_future(each.ask()) for name, each in self._asked.items()}
        if futures:
            await asyncio.wait(futures.values(), timeout=self._patience_s)
        said = {
            name: future.result() if future.done() else f"The {name} gave no answer within {self._patience_s:g} s."
            for name, future in futures.items()
        }
        reasons = [said[name] for name in self._needed if said[name]]
        self._tell(reasons)
        told = {name: text for name, text in said.items() if name not in self._needed}
        return _json({"ready": not reasons, "reasons": reasons, **told}, 503 if reasons else 200)

    def _tell(self, reasons: list[str]) -> None:
        if self._was is not (not reasons) and (reasons or self._was is not None):
            LOG.log(logging.WARNING if reasons else logging.INFO, " ".join(reasons) or "Ready again.")
        self._was = not reasons


class _Patient:
    """A probe in a thread of its own, never twice at once: whoever asks meanwhile gets the same answer, so asking often costs nothing."""

    def __init__(self, name: str, probe: Probe, fresh_s: float) -> None:
        self._name, self._probe, self._fresh_s = name, probe, fresh_s
        self._ended = -math.inf  # seconds of the monotonic clock
        self._lock = threading.Lock()
        self._running: Future[str] | None = None

    def ask(self) -> Future[str]:
        with self._lock:
            old = time.monotonic() - self._ended > self._fresh_s
            if self._running is None or (self._running.done() and old):
                self._running = Future()
                threading.Thread(
                    target=self._run, args=[self._running], name=f"probe {self._name}", daemon=True
                ).start()
            return self._running

    def _run(self, future: Future[str]) -> None:
        try:
            said = self._probe()
        except Exception as error:  # a probe that breaks is an answer, too
            LOG.error("probe", exc_info=error, extra={"where": self._name})
            said = f"The {self._name} does not answer as it should; the log says more."
        self._ended = time.monotonic()
        future.set_result(said)


def _json(said: Mapping[str, object], status: int) -> JSONResponse:
    return JSONResponse(dict(said), status_code=status, headers={"Cache-Control": "no-store"})
