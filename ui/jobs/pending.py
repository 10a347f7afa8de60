"""Values that wait on the server until an open page fetches them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Pending(Generic[V]):
    """One value per page (``Services.key``), for at most ``most`` pages: the oldest are dropped. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, V] = OrderedDict()
        self._lock = Lock()

    def put(self, page: str, value: V) -> None:
        """Stores the page's value, replacing the previous one."""
        with self._lock:
            self._values[page] = value
            self._values.move_to_end(page)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def take(self, page: str, wanted: Callable[[V], bool] = lambda _: True) -> V | None:
        """Removes and returns the page's value; None if there is none or ``wanted`` is false for it."""
        with self._lock:
            return self._values.pop(page) if page in self._values and wanted(self._values[page]) else None
