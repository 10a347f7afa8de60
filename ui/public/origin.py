"""Requests from pages of other origins carry no identity of the visitor; a private page, which has
no visitors, refuses them, and names that are not its own. Forwarding headers count only behind a
declared proxy. And the cookie by which a browser is known, set once, with the page itself. ASGI
layers around the page.

Gradio answers every origin and allows credentials, and a page in a Space's frame needs cookies that
browsers send from everywhere. Without this layer, any site that a visitor has open could read and
delete the visitor's runs. Browsers name the site of the sender in ``Sec-Fetch-Site``; over plain
HTTP they do not, and then ``Origin`` must be the page's own. No script can change either header.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.public.visitors import COOKIE, secret_of

YEAR_S = 365 * 24 * 3600
SAME_ORIGIN = ("same-origin", "none")  # none: typed, a bookmark
SAFE = ("GET", "HEAD")
_FORWARDED = (b"forwarded", b"x-forwarded-")
PORTS = {"http": 80, "https": 443}
_SCHEMES = {"ws": "http", "wss": "https"}
BEHIND_A_PROXY = (
    "Behind a proxy with another scheme or port, set MARS_PROXY=on and let it send X-Forwarded-Proto "
    "and X-Forwarded-Host, with the port."
)
OTHER_PAGE = (
    "This page is private: it answers neither pages of other origins nor their scripts. "
    f"{BEHIND_A_PROXY}"
)
LOG = logging.getLogger("mars.origin")
Origin = tuple[str, str, int | None]  # scheme, host, port


class OriginGuard:
    """ASGI layer: removes the cookies from requests of other origins' pages; a link or frame that
    leads here keeps them. ``trust_proxy``: a proxy in front sets ``X-Forwarded-Host`` and
    ``X-Forwarded-Proto``; without one these headers are removed, because anybody can send them and
    Gradio builds addresses of them.

    ``hosts``: of a private page, the names under which it may be opened, with ``*`` for any part,
    besides this machine's. Requests of other pages are refused then, and those to other names:
    somebody else may have led that name to this address (DNS rebinding), which makes the page that
    is open there one of the same origin. An IP address cannot be led elsewhere."""

    def __init__(
        self, app: ASGIApp, *, trust_proxy: bool = False, hosts: Sequence[str] | None = None
    ) -> None:
        self._app, self._trust_proxy, self._warned = app, trust_proxy, False
        machine = socket.gethostname()
        names = None if hosts is None else ("localhost", machine, f"{machine}.local", *hosts)
        self._hosts = names and [name.lower() for name in names]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = [
                each
                for each in scope["headers"]
                if self._trust_proxy or not each[0].startswith(_FORWARDED)
            ]
            if len(headers) < len(scope["headers"]) and not self._warned:
                self._warned = True
                LOG.warning("Forwarding headers are removed. %s", BEHIND_A_PROXY)
            # in the same scope, in which the layers around this one read the route
            scope["headers"] = headers
            if self._hosts is not None and (refusal := self._refusal(scope)):
                await JSONResponse({"detail": refusal}, 403)(scope, receive, send)
                return
            if foreign(scope):
                scope["headers"] = [each for each in headers if each[0] != b"cookie"]
                if "session" in scope:  # of a layer around this one, whose cookie stays as it is
                    scope = {**scope, "session": {}}
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str:
        """Return why a private page does not answer; empty where it does. Programs may send no
        ``Host``; browsers always do."""
        headers = Headers(scope=scope)
        for host in filter(
            None, (headers.get("host"), headers.get("x-forwarded-host", "").split(",")[0].strip())
        ):
            origin = _origin(f"http://{host}")
            if origin is None or not self._is_known(origin[1].rstrip(".")):
                return f"This page does not answer under the name {host[:80]!a}; MARS_HOSTS lists further names."
        return OTHER_PAGE if foreign(scope) else ""

    def _is_known(self, name: str) -> bool:
        try:
            return bool(ip_address(name))
        except ValueError:
            return any(fnmatchcase(name, each) for each in self._hosts or ())


def foreign(scope: Scope) -> bool:
    """Return whether a page of another origin sends this request. Programs send neither header;
    they are not foreign."""
    headers = Headers(scope=scope)
    site, sender = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None:
        return sender is not None and (_origin(sender) or ()) != page_origin(scope)
    if site in SAME_ORIGIN:
        return False
    return not (headers.get("sec-fetch-mode") == "navigate" and scope.get("method") in SAFE)


def page_origin(scope: Scope) -> Origin | None:
    """Return the origin under which the visitor sees the page; None where the request does not say.
    Forwarding headers, if any, are trusted."""
    headers, scheme = Headers(scope=scope), str(scope.get("scheme", "http"))
    proto, host = (
        headers.get(f"x-forwarded-{name}", "").split(",")[0].strip() for name in ("proto", "host")
    )
    scheme, host = proto or _SCHEMES.get(scheme, scheme), host or headers.get("host", "")
    return _origin(f"{scheme.lower()}://{host}")


def _origin(text: str) -> Origin | None:
    try:
        parts = urlsplit(text)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


class VisitorCookie:
    """Stands within ``OriginGuard``, which removes forwarding headers that no proxy has set. The
    cookie comes with the page alone: were it set by any answer, requests that run side by side
    would each make another visitor. Pages of other origins get none: it would replace the
    visitor's own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            not is_page_request(scope)
            or secret_of(HTTPConnection(scope).cookies, {})
            or foreign(scope)
        ):
            await self._app(scope, receive, send)
            return
        origin = page_origin(scope)
        cookie = new_cookie(root_path(scope), secure=origin is not None and origin[0] == "https")

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                headers = MutableHeaders(scope=message)
                headers.append("set-cookie", cookie)
                headers["cache-control"] = (
                    "private, no-store"  # else a cache on the way would make one visitor of many
                )
            await send(message)

        await self._app(scope, receive, sender)


def new_cookie(path: str, *, secure: bool) -> str:
    """Return the value of a Set-Cookie header with a new secret. A Space is displayed in a frame of
    another site: there a cookie must be partitioned, which requires https."""
    site = "SameSite=None; Secure; Partitioned" if secure else "SameSite=Lax"
    return f"{COOKIE}={secrets.token_urlsafe(32)}; Path={path}; Max-Age={YEAR_S}; HttpOnly; {site}"


def root_path(scope: Scope) -> str:
    """Return the path under which a proxy shows the page; ``/`` where it is displayed at the root."""
    path = urlsplit(str(scope.get("root_path") or "")).path.rstrip("/")
    plain = all(c.isascii() and (c.isalnum() or c in "/-_.~") for c in path)
    return path if path.startswith("/") and plain else "/"


def page_path(scope: Scope) -> str:
    """Return the path of a request below that of the page."""
    return str(scope["path"]).removeprefix(str(scope.get("root_path") or ""))


def is_page_request(scope: Scope) -> bool:
    """Return whether the page itself is requested, not a result for a frame in another page."""
    asked = scope["type"] == "http" and scope["method"] == "GET" and page_path(scope) in ("", "/")
    return asked and not is_frame(scope)


def is_frame(scope: Scope) -> bool:
    """Return whether the address says ``embed``."""
    return "embed" in QueryParams(scope.get("query_string", b""))
