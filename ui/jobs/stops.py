"""Requests to stop. A request is answered by the running generator itself, before its next step, so
that what it has is saved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ui.public.latest import Latest

MOST = 10_000  # stored requests


class VisitorStop(NamedTuple):
    """One visitor's request, as a Stop of a job."""

    requested: Callable[[], bool]


class StopRequests:
    """Requests by visitor (``Services.key``, and what of the page it is). Safe between threads;
    built once and passed down."""

    def __init__(self) -> None:
        self._requested = Latest[bool](MOST)
        self._all = False

    def begin(self, visitor: str) -> None:
        """New runs: earlier requests no longer count."""
        self._requested.take(visitor)

    def request(self, visitor: str) -> None:
        self._requested.put(visitor, True)

    def request_all(self) -> None:
        """Request all stops, on behalf of everybody, from now on: the program ends."""
        self._all = True

    def requested(self, visitor: str) -> bool:
        return self._all or self._requested.get(visitor) is not None

    def of(self, visitor: str) -> VisitorStop:
        return VisitorStop(partial(self.requested, visitor))
