"""Engines between two runs: what was recorded for one run serves the next of its kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from mars_core.engine import Engine

MOST = 4  # idle engines; each holds caches and recordings


class Engines:
    """Idle engines of one pair, the longest idle one dropped first."""

    def __init__(self) -> None:
        self._idle: OrderedDict[Hashable, Engine] = OrderedDict()
        self._lock = Lock()

    def take(self, kind: Hashable, build: Callable[[], Engine]) -> Engine:
        """An engine for nobody else until it is given back; one that never is, is simply freed."""
        with self._lock:
            idle = self._idle.pop(kind, None)
        return idle or build()

    def give_back(self, kind: Hashable, engine: Engine) -> None:
        with self._lock:
            self._idle[kind] = engine
            while len(self._idle) > MOST:
                self._idle.popitem(last=False)

    def clear(self) -> None:
        """Frees what is idle."""
        with self._lock:
            self._idle.clear()
