"""Requests to stop. A request is answered by the running generator itself, before its next step, so
that what it has is saved."""

from __future__ import annotations

from typing import NamedTuple

from ui.public.latest import Latest

MOST = 10_000  # stored requests


class StopRequests:
    """Requests by key of a ``JobStop``. Safe between threads; built once and passed down."""

    def __init__(self) -> None:
        self.requested = Latest[bool](MOST)
        self.all = False  # the program ends


class JobStop(NamedTuple):
    """Stops the jobs of one part of one page; the Stop of such a job."""

    requests: StopRequests
    key: str

    def begin(self) -> None:
        """Begin a new job: earlier requests no longer count."""
        self.requests.requested.take(self.key)

    def request(self) -> None:
        self.requests.requested.put(self.key, True)

    def requested(self) -> bool:
        return self.requests.all or self.requests.requested.get(self.key) is not None
