"""What of gradio's own routes answers strangers, how much they may send, and that an open page is used by its own browser only.

gradio takes the name of a session from whoever sends it. Whoever knew that of another could read and stop what runs there, so the first
browser that uses a session keeps it. An ASGI layer around the whole page; knows no store.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.public.visitors import session_key

LONGEST_BODY = 1 << 20  # bytes; the fields of the page are far below
MOST_SESSIONS = 20_000
API = "/gradio_api/"
OPEN = frozenset((
    "info", "queue", "call", "cancel", "reset", "heartbeat", "startup-events", "theme.css", "app_id", "user", "login_check",
    "mcp",
))  # fmt: skip
DIRECT = f"{API}run/predict"  # where the page sends events that do not queue; gradio refuses others there where api_open is False
_CLOSED = ("monitoring", "proxy=", "file=")  # outside of API: old names of doors
SHUT = "This part of the page is closed in public."
TOO_LONG = f"The request is too long; on this public page it must be at most {LONGEST_BODY:,} bytes."
OTHERS = "This page was opened by another browser, or its cookies were removed; load it again."
_STORED = ("cache-control", "private, no-store")  # what one visitor got is kept by no cache for others
_HEADERS = (("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin"))


class Sessions:
    """Which browser an open page belongs to: the first that named it. Safe between threads; forgets those unused for longest."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()

    def belongs(self, session: str, key: str) -> bool:
        with self._lock:
            owner = self._keys.setdefault(session, key)
            self._keys.move_to_end(session)
            while len(self._keys) > MOST_SESSIONS:
                self._keys.popitem(last=False)
            return owner == key


class Access:
    """For public mode."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._sessions = Sessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix(str(scope.get("root_path") or ""))
        if not is_open(path):
            await JSONResponse({"detail": SHUT}, 404)(scope, receive, send)
            return
        body = b""
        if scope["method"] == "POST" and not path.startswith(f"{API}mcp"):
            read = await _read(scope, receive)
            if read is None:
                await JSONResponse({"detail": TOO_LONG}, 413)(scope, receive, send)
                return
            body, receive = read, _again(read, receive)
        connection = HTTPConnection(scope)
        key = session_key(connection.cookies, connection.headers)
        if not all([self._sessions.belongs(session, key) for session in sessions_of(path, scope, body)]):
            await JSONResponse({"detail": OTHERS}, 403)(scope, receive, send)
            return
        await self._app(scope, receive, _marked(path, send))


def is_open(path: str) -> bool:
    """Whether a path may be asked for by strangers."""
    first = path.lstrip("/")
    if path.startswith(API):
        return path.rstrip("/") == DIRECT or path[len(API) :].split("/")[0] in OPEN
    return not first.startswith(_CLOSED)


def sessions_of(path: str, scope: Scope, body: bytes) -> set[str]:
    """Every session that a request names, in its path, its query or its body: which of them counts is gradio's to choose."""
    named: list[Any] = list(parse_qs(scope["query_string"].decode("latin-1")).get("session_hash", ()))
    if path.startswith(f"{API}heartbeat/"):
        named.append(path.removeprefix(f"{API}heartbeat/"))
    with suppress(ValueError, RecursionError):
        value: Any = json.loads(body or b"null")
        named += [value.get("session_hash")] if isinstance(value, Mapping) else []
    return {session for session in named if isinstance(session, str) and session}


async def _read(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None where it is too long."""
    said = HTTPConnection(scope).headers.get("content-length", "0")
    if not said.isdecimal() or int(said) > LONGEST_BODY:
        return None
    parts, size = [], 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > LONGEST_BODY:
            return None
        parts.append(part)
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiver() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiver


def _marked(path: str, send: Send) -> Send:
    """Answers with headers that keep them to whom they were given."""
    shared = path.startswith(("/assets/", "/static/", "/svelte/", "/plotly"))

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in (*_HEADERS, *(() if shared else (_STORED,))):
                headers.setdefault(name, value)
        await send(message)

    return sender
