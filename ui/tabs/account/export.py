"""``/mine/export.zip``: all that a visitor has here, as one file; written in constant memory, sent and removed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from storage import RunStore, StorageError, write_everything
from ui.kit.errors import error_message
from ui.services import Services

PATH = "/mine/export.zip"
NAME = "mars-playground-my-data.zip"
NO_COOKIE = (
    "Your browser sent no cookie of this page, so your data cannot be identified; open the page in a tab of its own, "
    "or send a header x-mars-visitor.\n"
)
BUSY = "All of your data is being exported already; wait until that has ended.\n"


class Exports:
    """Whose export is being written: one an owner at a time, for writing is work. Safe between threads."""

    def __init__(self) -> None:
        self._owners: set[str] = set()
        self._lock = Lock()

    @contextmanager
    def one(self, owner: str) -> Iterator[bool]:
        """Whether it is this one's turn; False while another of the owner's is written."""
        with self._lock:
            free = owner not in self._owners
            self._owners.add(owner)
        try:
            yield free
        finally:
            if free:
                self._owners.discard(owner)


def account_routes(services: Services) -> list[Route]:
    """The export of whoever asks; on a private page, of everything."""
    exports = Exports()

    def send(request: Request) -> Response:
        seen = services.seen_by(request)
        if not seen.visitor.lasting:
            return PlainTextResponse(NO_COOKIE, 403)
        with exports.one(seen.visitor.owner or "") as free:
            return export(seen.store, public=services.public) if free else PlainTextResponse(BUSY, 429)

    return [Route(PATH, send, methods=["GET"])]


def export(store: RunStore, *, public: bool) -> Response:
    """The ZIP of what ``store`` has, or one sentence on why there is none."""
    with tempfile.NamedTemporaryFile(prefix="mars-", suffix=".zip", delete=False) as file:
        path = Path(file.name)
    try:
        write_everything(store, path)
    except StorageError as error:
        path.unlink(missing_ok=True)
        return PlainTextResponse(f"{error_message(error, public=public)}\n".encode("utf-8", "replace"), 500)
    headers, gone = {"Cache-Control": "private, no-store"}, BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type="application/zip", filename=NAME, headers=headers, background=gone)
