"""Gives a browser its secret: a cookie, set once, with the page itself. An ASGI layer around the whole page."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.public.origin import foreign, own_origin
from ui.public.visitors import COOKIE, secret_of

YEAR_S = 365 * 24 * 3600


class VisitorCookie:
    """Stands within ``OwnPages``, which removes forwarding headers that no proxy has set.

    The cookie comes with the page alone: were it set by any answer, requests that run side by side would each make another visitor.
    Pages of other origins get none: it would take the place of the visitor's own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _asks_for_the_page(scope) or secret_of(HTTPConnection(scope).cookies, {}) or foreign(scope):
            await self._app(scope, receive, send)
            return
        seen = own_origin(scope)
        cookie = new_cookie(root_path(scope), secure=seen is not None and seen[0] == "https")

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                headers = MutableHeaders(scope=message)
                headers.append("set-cookie", cookie)
                headers["cache-control"] = "private, no-store"  # else a cache on the way would make one visitor of many
            await send(message)

        await self._app(scope, receive, sender)


def new_cookie(path: str, *, secure: bool) -> str:
    """The value of a Set-Cookie header with a new secret. A Space is shown in a frame of another site: there a cookie must be
    partitioned, which asks for https."""
    site = "SameSite=None; Secure; Partitioned" if secure else "SameSite=Lax"
    return f"{COOKIE}={secrets.token_urlsafe(32)}; Path={path}; Max-Age={YEAR_S}; HttpOnly; {site}"


def root_path(scope: Scope) -> str:
    """The path under which a proxy shows the page; ``/`` where it is shown at the root."""
    path = urlsplit(str(scope.get("root_path") or "")).path.rstrip("/")
    plain = all(c.isascii() and (c.isalnum() or c in "/-_.~") for c in path)
    return path if path.startswith("/") and plain else "/"


def _asks_for_the_page(scope: Scope) -> bool:
    root = str(scope.get("root_path") or "")
    return scope["type"] == "http" and scope["method"] == "GET" and scope["path"].removeprefix(root) in ("", "/")
