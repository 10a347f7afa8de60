"""Security headers for every response, and a log line for errors.

A request is logged with its method, the pattern of its route, its status and its time, without the
requested address, which contains ids and tokens, and without its client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("mars.requests")
SPACE_FRAMES = (
    "'self'",
    "https://huggingface.co",
    "https://*.hf.space",
)  # allowed frame ancestors of a Space
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")  # others are logged as "other"


class Guard:
    """ASGI middleware. ``frames``: allowed frame ancestors, empty for all. Errors are responses of
    500 and above, without 503, the frequent response of /ready and of a full queue."""

    def __init__(self, app: ASGIApp, *, frames: Sequence[str] = ()) -> None:
        self._app = app
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",  # the address may contain the token of a link
            "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        } | ({"Content-Security-Policy": f"frame-ancestors {' '.join(frames)}"} if frames else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        finally:
            if status >= 500 and status != 503:
                about = {
                    "method": scope["method"] if scope["method"] in METHODS else "other",
                    "route": getattr(scope.get("route"), "path", ""),
                    "status": status,
                    "ms": round((time.monotonic() - begun) * 1000),
                }
                LOG.info("answered", extra=about)
