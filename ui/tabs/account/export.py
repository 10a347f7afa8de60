"""``/mine/export.zip``: all that a visitor has here, as one file, written in constant memory."""

from __future__ import annotations

from threading import Lock

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from storage.everything import write_everything
from ui.kit.responses import written
from ui.services import Services

NAME = "mars-playground-my-data.zip"
NO_COOKIE = (
    "Your browser sent no cookie of this page, so your data cannot be identified; open the page in a tab of its own, "
    "or send a header x-mars-visitor.\n"
)
BUSY = "All of your data is being exported already; wait until that has ended.\n"


class Exports:
    """One an owner at a time, for writing is work. Safe between threads."""

    def __init__(self) -> None:
        self._owners: set[str] = set()
        self._lock = Lock()

    def send(self, services: Services, request: Request) -> Response:
        """The export of whoever asks; on a private page, of everything. Raises StorageError."""
        seen = services.seen_by(request)
        owner = seen.visitor.owner or ""
        if not seen.visitor.lasting:
            return PlainTextResponse(NO_COOKIE, 403)
        with self._lock:
            if owner in self._owners:
                return PlainTextResponse(BUSY, 429)
            self._owners.add(owner)
        try:
            answer = written(NAME, lambda path: write_everything(seen.store, path))
        finally:
            self._owners.discard(owner)
        answer.headers["Cache-Control"] = "private, no-store"
        return answer
