"""Engines between two runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

# enough for two comparisons of four lanes; each has its caches and captures
MAX_IDLE = 8
Engine = TypeVar("Engine")


class Engines(Generic[Engine]):
    """Idle engines of a pair; the one that has been idle longest is dropped first."""

    def __init__(self) -> None:
        self._idle: OrderedDict[Hashable, Engine] = OrderedDict()
        self._lock = Lock()

    def take(self, kind: Hashable) -> Engine | None:
        """Return an idle engine, reserved for the caller until ``give_back``; None if there is
        none."""
        with self._lock:
            return self._idle.pop(kind, None)

    def give_back(self, kind: Hashable, engine: Engine) -> None:
        with self._lock:
            self._idle[kind] = engine
            while len(self._idle) > MAX_IDLE:
                self._idle.popitem(last=False)

    def clear(self) -> None:
        """Frees all idle engines."""
        with self._lock:
            self._idle.clear()
