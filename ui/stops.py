"""Who asked to stop. Stop is answered by the running generator itself, before its next step, so that it can show and save what it has."""

from __future__ import annotations

from threading import Lock


class StopRequests:
    """Requests by visitor (Gradio's session hash). Safe between threads; built once and passed down."""

    def __init__(self) -> None:
        self._requested: set[str] = set()
        self._lock = Lock()

    def begin(self, visitor: str) -> None:
        """A new comparison: what was asked before it no longer counts."""
        with self._lock:
            self._requested.discard(visitor)

    def request(self, visitor: str) -> None:
        with self._lock:
            self._requested.add(visitor)

    def requested(self, visitor: str) -> bool:
        with self._lock:
            return visitor in self._requested
