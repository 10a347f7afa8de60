"""``/mine/export.zip``: all that a visitor has here, as one file; written in constant memory, sent and removed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Lock

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from storage import RunStore, StorageError
from storage.everything import write_everything
from ui.kit.errors import error_message
from ui.services import Services

PATH = "/mine/export.zip"
NAME = "mars-playground-my-data.zip"
NO_COOKIE = (
    "Your browser sent no cookie of this page, so your data cannot be identified; open the page in a tab of its own, "
    "or send a header x-mars-visitor.\n"
)
BUSY = "All of your data is being exported already; wait until that has ended.\n"


def account_routes(services: Services) -> list[Route]:
    """The export of whoever asks; on a private page, of everything. One an owner at a time, for writing is work."""
    writing, lock = set[str](), Lock()

    def send(request: Request) -> Response:
        seen = services.seen_by(request)
        owner = seen.visitor.owner or ""
        if not seen.visitor.lasting:
            return PlainTextResponse(NO_COOKIE, 403)
        with lock:
            if owner in writing:
                return PlainTextResponse(BUSY, 429)
            writing.add(owner)
        try:
            return _export(seen.store, public=services.public)
        finally:
            writing.discard(owner)

    return [Route(PATH, send, methods=["GET"])]


def _export(store: RunStore, *, public: bool) -> Response:
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
