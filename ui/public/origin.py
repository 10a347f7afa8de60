"""Pages of other sites are strangers here: what they send comes without the visitor's cookies. Knows ASGI alone.

Gradio answers every origin and lets it send cookies along, and a page in a Space's frame needs cookies that browsers send from
everywhere. Without this, any site that a visitor has open could read and delete what is theirs. A browser says in
``Sec-Fetch-Site`` whose page sends a request, and no script can change that.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

OWN = (b"same-origin", b"none")  # none: typed, a bookmark
SAFE = ("GET", "HEAD")


class OwnPages:
    """Middleware that takes the cookies from requests of other sites' pages. A link or frame that leads here keeps them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and foreign(scope):
            scope = {**scope, "headers": [each for each in scope["headers"] if each[0] != b"cookie"]}
            if "session" in scope:  # of the layer around this one, which leaves its cookie as it is
                scope["session"] = {}
        await self.app(scope, receive, send)


def foreign(scope: Scope) -> bool:
    """Whether a page of another site sends this. Programs and old browsers do not say; those send no cookies for others, or ask nobody."""
    said = dict(scope["headers"])
    if said.get(b"sec-fetch-site", OWN[0]) in OWN:
        return False
    return not (said.get(b"sec-fetch-mode") == b"navigate" and scope.get("method") in SAFE)
