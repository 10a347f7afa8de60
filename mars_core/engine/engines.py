"""Engines between two runs: what was captured for one run serves the next of its kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from mars_core.engine import Engine

MOST = 8  # idle engines, those of two comparisons of four lanes; each holds caches and captures


class Engines:
    """Idle engines of one pair, the longest idle one dropped first."""

    def __init__(self) -> None:
        self._idle: OrderedDict[Hashable, Engine] = OrderedDict()
        self._lock = Lock()

    def take(self, kind: Hashable) -> Engine | None:
        """An idle engine, for nobody else until it is given back; one that never is, is simply freed."""
        with self._lock:
            return self._idle.pop(kind, None)

    def give_back(self, kind: Hashable, engine: Engine) -> None:
        with self._lock:
            self._idle[kind] = engine
            while len(self._idle) > MOST:
                self._idle.popitem(last=False)

    def clear(self) -> None:
        """Frees what is idle."""
        with self._lock:
            self._idle.clear()
