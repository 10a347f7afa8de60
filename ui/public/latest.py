"""Values of pages and visitors, whose number nobody bounds: those that were used last stay."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Latest(Generic[V]):
    """Values by key, of the ``most`` keys that were used last; the others are dropped.
    Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, V] = OrderedDict()
        self._lock = Lock()

    def put(self, key: str, value: V) -> None:
        """Replaces the key's value."""
        with self._lock:
            self._values[key] = value
            self._used(key)

    def first(self, key: str, value: V) -> V:
        """Return the key's value; ``value``, from now on, where it has none."""
        with self._lock:
            current = self._values.setdefault(key, value)
            self._used(key)
            return current

    def get(self, key: str) -> V | None:
        with self._lock:
            if key in self._values:
                self._used(key)
            return self._values.get(key)

    def take(self, key: str) -> V | None:
        """Removes and returns the key's value; None if there is none."""
        with self._lock:
            return self._values.pop(key, None)

    def _used(self, key: str) -> None:
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
