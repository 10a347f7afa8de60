"""What a link to the page shows where it is posted: title, description and address in the page's
head, instead of Gradio's tags. A comparison is described only where the address has a link
that shows it; the page itself, where it is public, has a picture. Before what Gradio loads it also
has a script, ``leaving.js``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.public.origin import PORTS, is_page_request, page_origin, root_path

TITLE = "MARS Playground"
PICTURE = "public/preview.png"  # below ui, and as an address
ABOUT = (
    "Margin-aware speculative decoding on your own prompts and models: the texts of strict and "
    "relaxed verification side by side, token by token, with what each gains and changes."
)
LEAVING = Markup("<script>{}</script>").format(
    Markup((Path(__file__).parents[1] / "assets/leaving.js").read_text(encoding="utf-8"))
)
_STOCK = re.compile(rb'<meta\s+(?:property="og:|name="(?:twitter:|description"))[^>]*>\s*')
# behind it, because what reads previews reads only the beginning of a page
_CHARSET = re.compile(rb"<meta charset[^<>]*>")


class Previews:
    """ASGI layer. ``describe``: what the query of an address shows to everybody, None for
    nothing; it may read the store. ``public``: others can load the picture."""

    def __init__(
        self,
        app: ASGIApp,
        describe: Callable[[Mapping[str, str]], tuple[str, str] | None],
        *,
        public: bool,
    ) -> None:
        self._app, self._describe, self._public = app, describe, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_page_request(scope):
            await self._app(scope, receive, send)
            return
        query = {
            name: text
            for name, text in QueryParams(scope["query_string"]).items()
            if name in ("comparison", "share")
        }
        description = await run_in_threadpool(self._describe, query)
        home = _home(scope)
        address = f"{home}?{urlencode(query)}" if description else home
        picture = f"{home}{PICTURE}" if self._public and not description else ""
        tags = head_tags(*(description or (TITLE, ABOUT)), address, picture)
        held: list[Message] = []

        async def sender(message: Message) -> None:
            held.append(message)
            if message["type"] != "http.response.body" or message.get("more_body"):
                return
            start, body = held[0], b"".join(each.get("body", b"") for each in held)
            headers = MutableHeaders(raw=start["headers"])
            if headers.get("content-type", "").startswith("text/html"):
                body = _STOCK.sub(b"", body)
                body = _CHARSET.sub(lambda match: match[0] + b"\n" + tags, body, count=1)
                headers["content-length"] = str(len(body))
            await send(start)
            await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, sender)


def _home(scope: Scope) -> str:
    """Return the address of the page itself, as the visitor sees it."""
    root = f"{root_path(scope).rstrip('/')}/"
    origin = page_origin(scope)
    if origin is None:
        return root
    scheme, host, port = origin
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}{'' if port in (None, PORTS.get(scheme)) else f':{port}'}{root}"


def picture_file(_request: Request) -> FileResponse:
    return FileResponse(Path(__file__).parents[1] / PICTURE)


def head_tags(title: str, description: str, address: str, picture: str) -> bytes:
    """Escaped: the title and description may be a visitor's text."""
    tags = [
        Markup('<meta property="og:{}" content="{}" />').format(name, text)
        for name, text in (
            ("type", "website"),
            ("site_name", TITLE),
            ("title", title),
            ("description", description),
            ("url", address),
            ("image", picture),
        )
        if text
    ]
    tags += [
        Markup('<meta name="description" content="{}" />').format(description),
        Markup('<meta name="twitter:card" content="summary{}" />').format(
            "_large_image" if picture else ""
        ),
        Markup('<link rel="canonical" href="{}" />').format(address),
        LEAVING,
    ]
    return "\n".join(tags).encode("utf-8", "xmlcharrefreplace")
