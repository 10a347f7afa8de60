"""Errors for visitors: messages without paths, internal errors logged under an id, and the ASGI
layer that answers failed requests."""

from __future__ import annotations

import logging
import re
import secrets

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mars_core.panics import contained
from ui.public.origin import page_path

LOG = logging.getLogger("mars.faults")
_PATH = re.compile(
    r"""(?<![\w.:/])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'"()<>,;:]+){2,}[/\\]?|sqlite:\S+|postgresql\S{0,40}://[^\s)]+"""
)
_UNKNOWN = re.compile(r"There is no (?:comparison|study|run|vote) with the id [^\n]{0,80}")
SHAREABLE = ", or it is not yours; its owner can share it."
CALLS = ("/gradio_api/call/", "/gradio_api/run/", "/gradio_api/api/", "/gradio_api/queue/join")
NO_CALL = "There is no endpoint of this name or fn_index that takes these values; /gradio_api/info lists the endpoints."


_MISCALLS = (
    (
        re.compile(r"Parameter `(.*)` is not a valid key-word argument", re.DOTALL),
        "There is no parameter",
    ),
    (
        re.compile(r"No value provided for required argument: (.*)", re.DOTALL),
        "The call lacks the parameter",
    ),
)  # of gradio_client


def miscall(message: str) -> str:
    """Return one sentence that names the parameter for which Gradio refused a call by names; empty
    for any other message."""
    for pattern, sentence in _MISCALLS:
        if match := pattern.match(message):
            return f"{sentence} {match[1][:80]!r}; /gradio_api/info lists those of each endpoint."
    return ""


def error_message(error: Exception | str, *, public: bool) -> str:
    message = str(error)
    if not public:
        return message
    message = _PATH.sub("…", message)
    return f"{message.rstrip('.')}{SHAREABLE}" if _UNKNOWN.fullmatch(message) else message


def fault(error: BaseException, where: str) -> str:
    """Logs ``error`` with its stack under a new id; returns the message for the visitor, which has
    this id."""
    name = secrets.token_hex(4)
    LOG.error("fault", exc_info=error, extra={"fault": name, "where": where})
    return f"Something went wrong (error {name}). Completed runs were saved."


class ErrorPages:
    """ASGI middleware around the page: a request that fails gets an error id; if its response had
    begun, the connection is closed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sender(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            with contained():
                await self._app(scope, receive, sender)
        except Exception as error:
            if begun and _refused(
                error
            ):  # Gradio's end of the stream of an unknown session, after a message
                await send({"type": "http.response.body", "body": b""})
            elif begun:
                fault(error, _route(scope))
                raise
            elif _miscalled(scope, error):
                sentence = miscall(str(error)) or NO_CALL
                await PlainTextResponse(f"{sentence}\n", 400)(scope, receive, send)
            else:
                await PlainTextResponse(f"{fault(error, _route(scope))}\n", 500)(
                    scope, receive, send
                )


def _miscalled(scope: Scope, error: Exception) -> bool:
    """Return whether Gradio did not find what a call names. Nothing of this program runs where
    these routes look for it."""
    return page_path(scope).startswith(CALLS) and (
        isinstance(error, KeyError | TypeError) or "FnIndex" in type(error).__name__
    )


def _refused(error: BaseException) -> bool:
    """Starlette raises another error from one that came after the answer had begun."""
    return isinstance(error.__cause__ or error, HTTPException)


def _route(scope: Scope) -> str:
    """Return the route by the first part of its path: the rest may be what a visitor wrote."""
    return f"request /{str(scope['path']).split('/')[1][:40]}"
