"""Who listens to the events that are queued or run. An event of a client that never asked how it
goes is dropped where others wait, as Gradio does it itself where a client that listened has gone.
An ASGI layer around the page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from urllib.parse import parse_qs

import gradio as gr
from starlette.types import ASGIApp, Receive, Scope, Send

from ui.kit.gradio_compat import drop_event, queued_events
from ui.public.access import API
from ui.public.origin import page_path

CHECK_S = 5.0  # an event without a listener at two checks is dropped


class Listeners:
    """``others_wait``: whether somebody waits for a turn."""

    def __init__(self, app: ASGIApp, page: gr.Blocks, others_wait: Callable[[], bool]) -> None:
        self._app, self._page, self._others_wait = app, page, others_wait
        self._open = Counter[str]()  # streams by event, or by session
        self._watching: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        key = _listened(scope) if scope["type"] == "http" and scope["method"] == "GET" else ""
        self._open[key] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open[key] -= 1
            self._open += Counter()  # without those that have none

    async def _watch(self) -> None:
        before = set[str]()
        while True:
            await asyncio.sleep(CHECK_S)
            unheard = {
                event
                for event, session in queued_events(self._page).items()
                if not (self._open[event] or self._open[session])
            }
            if self._others_wait():
                for event in unheard & before:
                    await drop_event(self._page, event)
            before = unheard


def _listened(scope: Scope) -> str:
    """Return the event or the session whose messages a request asks for; empty for another request."""
    path = page_path(scope)
    if path == f"{API}queue/data":
        query = parse_qs(str(scope["query_string"], "latin-1"))
        return query.get("session_hash", [""])[0]
    parts = path.removeprefix(f"{API}call/").split("/")
    return parts[1] if path.startswith(f"{API}call/") and len(parts) > 1 else ""
