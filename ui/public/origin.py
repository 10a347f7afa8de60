"""Requests from pages of other origins carry no identity of the visitor, and forwarding headers count only behind a declared proxy.

Gradio answers every origin and allows credentials, and a page in a Space's frame needs cookies that browsers send from everywhere.
Without this layer, any site that a visitor has open could read and delete the visitor's runs. Browsers name the site of the sender in
``Sec-Fetch-Site``; over plain HTTP they do not, and then ``Origin`` must be the page's own. No script can change either header.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

OWN = ("same-origin", "none")  # none: typed, a bookmark
SAFE = ("GET", "HEAD")
_PORTS = {"http": 80, "https": 443}
_SCHEMES = {"ws": "http", "wss": "https"}
Origin = tuple[str, str, int | None]  # scheme, host, port


class OwnPages:
    """ASGI layer: removes the cookies from requests of other origins' pages; a link or frame that leads here keeps them.

    ``trust_proxy``: a proxy in front sets ``X-Forwarded-Host`` and ``X-Forwarded-Proto``; without one these headers are removed,
    because anybody can send them and Gradio builds addresses of them.
    """

    def __init__(self, app: ASGIApp, *, trust_proxy: bool = False) -> None:
        self._app, self._trust_proxy = app, trust_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = [each for each in scope["headers"] if self._trust_proxy or not _forwarded(each[0])]
            scope = {**scope, "headers": headers}
            if foreign(scope):
                scope["headers"] = [each for each in headers if each[0] != b"cookie"]
                if "session" in scope:  # of the layer around this one, which leaves its cookie as it is
                    scope["session"] = {}
        await self._app(scope, receive, send)


def foreign(scope: Scope) -> bool:
    """Whether a page of another origin sends this request. Programs send neither header; they are not foreign."""
    headers = Headers(scope=scope)
    site, sender = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None:
        return sender is not None and (_origin(sender) or ()) != own_origin(scope)
    if site in OWN:
        return False
    return not (headers.get("sec-fetch-mode") == "navigate" and scope.get("method") in SAFE)


def own_origin(scope: Scope) -> Origin | None:
    """The origin under which the visitor sees the page; None where the request does not say. Forwarding headers, if any, are trusted."""
    headers, scheme = Headers(scope=scope), str(scope.get("scheme", "http"))
    scheme = _first(headers.get("x-forwarded-proto", "")) or _SCHEMES.get(scheme, scheme)
    host = _first(headers.get("x-forwarded-host", "")) or headers.get("host", "")
    return _origin(f"{scheme.lower()}://{host}")


def _origin(text: str) -> Origin | None:
    try:
        parts = urlsplit(text)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _first(values: str) -> str:
    return values.split(",")[0].strip()


def _forwarded(name: bytes) -> bool:
    return name == b"forwarded" or name.startswith(b"x-forwarded-")
