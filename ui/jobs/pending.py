"""What the server keeps for an open page until the page fetches it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Pending(Generic[V]):
    """One value for each page (``Services.key``), of at most ``most`` pages: the oldest are forgotten. Safe between threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, V] = OrderedDict()
        self._lock = Lock()

    def put(self, page: str, value: V) -> None:
        """In place of the page's value before."""
        with self._lock:
            self._values[page] = value
            self._values.move_to_end(page)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def take(self, page: str, wanted: Callable[[V], bool] = lambda _: True) -> V | None:
        """The page's value, once; None where there is none or another than ``wanted``."""
        with self._lock:
            return self._values.pop(page) if page in self._values and wanted(self._values[page]) else None
