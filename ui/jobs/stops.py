"""Requests to stop. A request is answered by the running generator itself, before its next step, so that what it has is saved."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

MOST = 10_000  # stored requests; the oldest are dropped


class StopRequests:
    """Requests by visitor (``Services.key``, and what of the page it is). Safe between threads; built once and passed down."""

    def __init__(self) -> None:
        self._requested: OrderedDict[str, None] = OrderedDict()
        self._all = False
        self._lock = Lock()

    def begin(self, visitor: str) -> None:
        """New runs: earlier requests no longer count."""
        with self._lock:
            self._requested.pop(visitor, None)

    def request(self, visitor: str) -> None:
        with self._lock:
            self._requested[visitor] = None
            while len(self._requested) > MOST:
                self._requested.popitem(last=False)

    def request_all(self) -> None:
        """On behalf of everybody, from now on: the program ends."""
        self._all = True

    def requested(self, visitor: str) -> bool:
        with self._lock:
            return self._all or visitor in self._requested

    def of(self, visitor: str) -> VisitorStop:
        """The same as a Stop of a job."""
        return VisitorStop(self, visitor)


@dataclass(frozen=True, slots=True)
class VisitorStop:
    """One visitor's request."""

    requests: StopRequests
    visitor: str

    def requested(self) -> bool:
        return self.requests.requested(self.visitor)
