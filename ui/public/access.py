"""Which requests reach Gradio: well-formed ones, in public mode also only to open routes, of
bounded size and for the visitor's open page.

Gradio takes the name of a session from the client. A client that knew that of another could read
and stop what runs there, so the first browser that uses a session keeps it. An ASGI layer around
the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.public.latest import Latest
from ui.public.origin import page_path
from ui.public.visitors import LONGEST_SESSION, session_key

LONGEST_BODY = 1 << 20  # bytes, in public mode; the fields of the page are far below
LONGEST_ADDRESS = 60_000  # bytes; Gradio fails at 65,536 with the name of the host
DEEPEST = 64  # levels of nested JSON
MOST_SESSIONS = 20_000
MOST_NAMED = 4  # sessions in one request: a page names one, perhaps in its address and in its body
API = "/gradio_api/"
OPEN = frozenset(
    (
        "info",
        "queue",
        "call",
        "cancel",
        "reset",
        "heartbeat",
        "startup-events",
        "theme.css",
        "app_id",
        "user",
        "login_check",
        "mcp",
    )
)
JSON_ROUTES = frozenset(("queue", "call", "cancel", "reset", "run", "api", "mcp"))
# where the page sends events that do not queue; Gradio refuses others there where api_open is False
DIRECT = f"{API}run/predict"
# Query parameters with which Gradio chooses what a page is made of; it fails where it does not know
# their values, which stand in sent links.
GRADIO_NAMES = ("page", "deep_link")
_CLOSED = ("monitoring", "proxy=", "file=")  # outside of API: old names of routes
CLOSED = "This part of the page is closed in public."
TOO_LONG = (
    f"The request is too long; on this public page it must be at most {LONGEST_BODY:,} bytes."
)
LONG_ADDRESS = f"The address is too long; it must be at most {LONGEST_ADDRESS:,} bytes."
NOT_JSON = (
    f"The body must be JSON in UTF-8 with finite numbers, nested at most {DEEPEST} levels deep."
)
TOO_MANY = f"session_hash must name at most {MOST_NAMED} sessions in one request, each of at most {LONGEST_SESSION} characters."
OTHERS = "This page was opened by another browser, or its cookies were deleted; reload it."
_STORED = (
    "cache-control",
    "private, no-store",
)  # what one visitor got is cached by nobody for others


class Access:
    """``public``: strangers use the page. In private mode only the form of a request is checked."""

    def __init__(self, app: ASGIApp, *, public: bool) -> None:
        self._app, self._public = app, public
        self._browsers = Latest[str](MOST_SESSIONS)  # session name → the first browser that used it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = page_path(scope)
            if path.strip("/") in ("", "config"):
                scope["query_string"] = _without_gradios(scope["query_string"])
            try:
                receive = await self._checked(path, scope, receive)
            except HTTPException as error:
                await JSONResponse({"detail": error.detail}, error.status_code)(
                    scope, receive, send
                )
                return
            send = _private(path, send) if self._public else send
        await self._app(scope, receive, send)

    async def _checked(self, path: str, scope: Scope, receive: Receive) -> Receive:
        """Return where the body comes from once it was read. Raises HTTPException for a request
        that may not pass."""
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            raise HTTPException(414, LONG_ADDRESS)
        if self._public and not is_open(path):
            raise HTTPException(404, CLOSED)
        body: Any = None
        if scope["method"] == "POST" and (_takes_json(path) or self._public):
            read = await _read(scope, receive, LONGEST_BODY if self._public else None)
            receive = _again(read, receive)
            try:
                body = parse(read) if _takes_json(path) else None
            except ValueError:
                raise HTTPException(400, NOT_JSON) from None
        if self._public:
            names = sessions_of(path, scope, body)
            if len(names) > MOST_NAMED or any(len(name) > LONGEST_SESSION for name in names):
                raise HTTPException(400, TOO_MANY)
            connection = HTTPConnection(scope)
            key = session_key(connection.cookies, connection.headers)
            if not all([self._browsers.first(session, key) == key for session in names]):
                raise HTTPException(403, OTHERS)
        return receive


def _without_gradios(query: bytes) -> bytes:
    """Return the query without names of Gradio's; as it is where it has none."""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    left = [pair for pair in pairs if pair[0] not in GRADIO_NAMES]
    return query if left == pairs else urlencode(left).encode("ascii")


def is_open(path: str) -> bool:
    if path.startswith(API):
        return path.rstrip("/") == DIRECT or path[len(API) :].split("/")[0] in OPEN
    return not path.lstrip("/").startswith(_CLOSED)


def parse(body: bytes) -> Any:
    """Return the value of a JSON text; None for an empty one. Raises ValueError for what is not
    JSON, not finite or nested too deep."""
    try:
        value = json.loads(body.decode("utf-8") or "null")
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    _check_depth(value, DEEPEST)
    json.dumps(value, allow_nan=False)
    return value


def _check_depth(value: Any, levels: int) -> None:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if levels < 0:
        raise ValueError("nested too deep")
    for each in inner:
        _check_depth(each, levels - 1)


def sessions_of(path: str, scope: Scope, body: Any) -> set[str]:
    """Return all session names in a request's path, query and body; Gradio decides which of them it
    uses."""
    query = scope["query_string"].decode("latin-1")
    named: list[Any] = list(parse_qs(query).get("session_hash", ()))
    if path.startswith(f"{API}heartbeat/"):
        named.append(path.removeprefix(f"{API}heartbeat/"))
    if isinstance(body, Mapping):
        named.append(body.get("session_hash"))
    return {session for session in named if isinstance(session, str) and session}


def _takes_json(path: str) -> bool:
    return path.startswith(API) and path[len(API) :].split("/")[0] in JSON_ROUTES


async def _read(scope: Scope, receive: Receive, longest: int | None) -> bytes:
    """Return the full body. Raises HTTPException where it is longer than ``longest`` bytes."""
    length = HTTPConnection(scope).headers.get("content-length", "0")
    if longest is not None and (not length.isdecimal() or int(length) > longest):
        raise HTTPException(413, TOO_LONG)
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if longest is not None and len(body) > longest:
            raise HTTPException(413, TOO_LONG)
        more = message["type"] == "http.request" and message.get("more_body", False)
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Replays the body that was read, then passes on what follows."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiver() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiver


def _private(path: str, send: Send) -> Send:
    """Sends ``cache-control: private, no-store`` with all responses except static files."""
    if path.startswith(("/assets/", "/static/", "/svelte/")):
        return send

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).setdefault(*_STORED)
        await send(message)

    return sender
