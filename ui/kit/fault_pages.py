"""Where errors of this program end: every event of the page, and every request. What is shown is one sentence with an id, see faults.py."""

from __future__ import annotations

from typing import Any

import gradio as gr
from gradio.route_utils import FnIndexInferError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.kit.faults import fault
from ui.kit.format import plural

CALLS = "/gradio_api/call/"  # puts a call into the queue; nothing of ours runs before it is there
MISCALLED = (KeyError, TypeError, FnIndexInferError)
NO_CALL = "There is no endpoint of this name that takes these values; /gradio_api/info tells which there are."


class FaultyBlocks(gr.Blocks):
    """Blocks whose events never show more of an error than its id, wherever in an event it was raised."""

    async def process_api(self, block_fn: Any, *args: Any, **options: Any) -> dict[str, Any]:
        """As gradio's; an error that is not meant for the visitor becomes one that is."""
        event = self.fns[block_fn] if isinstance(block_fn, int) else block_fn
        given = options.get("inputs", args[0] if args else ())
        if len(given) != len(event.inputs):  # only a request that was written by hand
            raise gr.Error(f"This takes {plural(len(event.inputs), 'value')}, not {len(given)}.", print_exception=False)
        try:
            return await super().process_api(event, *args, **options)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:  # noqa: BLE001  (the last place that sees it)
            raise gr.Error(fault(error, _name(event)), print_exception=False) from None


def _name(block_fn: Any) -> str:
    name = getattr(block_fn, "name", None) or getattr(block_fn, "api_name", None)
    return f"event {name}" if name else "event"


class Faults:
    """An ASGI layer around the whole page: a request that fails is answered with an id; one whose answer had begun is broken off."""

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
            await self._app(scope, receive, sender)
        except Exception as error:
            if not begun and str(scope["path"]).startswith(CALLS) and isinstance(error, MISCALLED):
                await PlainTextResponse(f"{NO_CALL}\n", 400)(scope, receive, send)
                return
            if begun:
                if not isinstance(error, HTTPException):  # gradio ends the stream of an unknown session with one
                    fault(error, _place(scope))
                raise
            await PlainTextResponse(f"{fault(error, _place(scope))}\n", 500)(scope, receive, send)


def _place(scope: Scope) -> str:
    """The route by the first part of its path: the rest may be what a visitor wrote."""
    return f"request /{str(scope['path']).split('/')[1][:40]}"
