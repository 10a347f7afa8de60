"""Everything that touches Gradio's internals. ``tests/unit/ui/test_gradio_compat.py`` checks every
internal that is used here against the installed Gradio."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Mapping
from inspect import signature
from types import SimpleNamespace
from typing import Any

import gradio as gr

from display.format import plural
from mars_core.panics import contained
from ui.kit.errors import fault, miscall
from ui.kit.lengths import PANEL, LengthError, check_lengths

ARRIVAL_S = 30.0  # within which a request, its body included, must have arrived
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
# between two looks for waiting events; Gradio's millisecond took 8 % of a core at rest
_POLL_S = 0.01


class FaultyBlocks(gr.Blocks):
    """Blocks whose events never show more of an error than its id, wherever in an event it was
    raised."""

    def queue(self, *args: Any, **options: Any) -> Any:
        super().queue(*args, **options)
        self._queue.sleep_when_free = _POLL_S
        return self

    async def process_api(self, block_fn: Any, *args: Any, **options: Any) -> dict[str, Any]:
        """Process as Gradio does; an error that is not meant for the visitor becomes one that is."""
        event = self.fns[block_fn] if isinstance(block_fn, int) else block_fn
        inputs = options.get("inputs", args[0] if args else ())
        if not event.fn:
            raise gr.Error("This event runs in the browser alone.", print_exception=False)
        if len(inputs) != len(event.inputs):  # only a request that was written by hand
            raise gr.Error(
                f"This takes {plural(len(event.inputs), 'value')}, not {len(inputs)}.",
                print_exception=False,
            )
        reported = options.get("event_data")
        if reported is not None and not isinstance(getattr(reported, "_data", {}), Mapping):
            reported = options["event_data"] = gr.EventData(reported.target, {})
        try:
            check_lengths(
                [
                    *zip(_names(event), inputs, strict=True),
                    ("the event", getattr(reported, "_data", None)),
                ]
            )
            with contained():
                return await super().process_api(event, *args, **options)
        except gr.Error as error:
            error.print_exception = False
            raise
        except LengthError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except Exception as error:  # noqa: BLE001  (the last handler that sees it)
            name = getattr(event, "name", None) or getattr(event, "api_name", None)
            raise gr.Error(
                fault(error, f"event {name}" if name else "event"), print_exception=False
            ) from None

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        """Return what Gradio does, which builds every component anew that an event leaves as it is:
        of 17 ms for a frame of Compare, 14."""
        outputs = block_fn.outputs
        if (
            not isinstance(predictions, dict)
            or not predictions
            or not predictions.keys() <= set(outputs)
        ):
            return await super().postprocess_data(block_fn, predictions, state)
        unchanged = [
            each
            for each, value in predictions.items()
            if isinstance(value, dict) and value == gr.skip()
        ]
        changed = [each for each in outputs if each in predictions.keys() - unchanged]
        by_output: dict[Any, Any] = {}
        if changed:
            event, values = copy.copy(block_fn), [predictions[each] for each in changed]
            event.outputs = changed
            values = await super().postprocess_data(
                event, values if len(changed) > 1 else values[0], state
            )
            by_output = dict(zip(changed, values, strict=True))
        return [by_output.get(each, None if each.stateful else gr.skip()) for each in outputs]

    def handle_streaming_diffs(
        self, block_fn: Any, data: list[Any], *args: Any, **options: Any
    ) -> list[Any]:
        """Return what changed since the last frame, as Gradio does, but updates of properties
        whole: a browser changes the object of the last frame in place, which may still wait there
        to be shown, and what the next frame no longer names is never shown then."""
        frame = list(data)
        edits = super().handle_streaming_diffs(block_fn, data, *args, **options)
        return [
            [["replace", [], value]]
            if isinstance(value, dict) and isinstance(edit, list) and edit
            else edit
            for value, edit in zip(frame, edits, strict=True)
        ]


def _names(event: Any) -> list[str]:
    """Return the names of its values: parameters of an endpoint, or components."""
    if not event.inputs or event.inputs[0].get_block_name() != "api":
        return [PANEL if isinstance(each, gr.HTML) else str(each.elem_id) for each in event.inputs]
    return [*signature(event.fn).parameters][: len(event.inputs)]


def report_progress_on(page: gr.Blocks, target: gr.HTML) -> None:
    """Gradio tells how an event fares to each of its outputs, at every message of any event, even
    where nothing shows it: with hundreds of components that takes the browser longer than a frame.
    Events that show nothing report to ``target`` alone."""
    for event in page.fns.values():
        if event.show_progress == "hidden":
            event.show_progress_on = [target]


def forget_components(page: gr.Blocks) -> None:
    """Forget the components of a page that was just launched and has no session yet: sessions keep
    the values of ``gr.State`` only. For links to a page as it stands Gradio keeps with every
    session a description of each component and the value that it last showed: a megabyte for one
    call of the API, more for an open page. This page has links of its own (``ui.kit.address``)."""
    from gradio.state_holder import SessionState, StateHolder

    class LeanSession(SessionState):
        def __init__(self, blocks: gr.Blocks) -> None:
            nothing: Any = SimpleNamespace(
                default_config=blocks.default_config, blocks=()
            )  # to describe
            super().__init__(nothing)

        def __setitem__(self, key: int, value: Any) -> None:
            super().__setitem__(key, value)
            self.config_values.clear()

        def _update_config(self, key: int) -> None:
            pass

        def _update_value_in_config(self, key: int, value: Any) -> None:
            pass

    class Sessions(StateHolder):
        def __getitem__(self, session_id: str) -> SessionState:
            if session_id not in self.session_data:
                self.session_data[session_id] = LeanSession(self.blocks)
            return super().__getitem__(session_id)

    sessions: StateHolder = Sessions()  # type: ignore[no-untyped-call]
    sessions.set_blocks(page)
    page.app.state_holder = sessions


def limit_arrival(page: gr.Blocks) -> None:
    """Close, on a page that was just launched, a connection whose request has not arrived completely
    within ``ARRIVAL_S``."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PromptProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._deadline is not None:
                self._deadline.cancel()

        def _watch(self) -> None:
            """Set one deadline a request, from its first byte or the beginning of the connection
            on."""
            if self._arrived() and self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
            elif not self._arrived() and self._deadline is None:
                self._deadline = self.loop.call_later(ARRIVAL_S, self._expire)

        def _arrived(self) -> bool:
            return (
                self.cycle is not None
                and not self.cycle.response_complete
                and not self.cycle.more_body
            )

        def _expire(self) -> None:
            if self.transport.is_closing() or self._arrived():
                return
            if (
                self.cycle is None
                or self.cycle.response_complete
                or not self.cycle.response_started
            ):
                self.transport.write(_TIMED_OUT)
            self.transport.close()

    config: Any = page.server.config
    config.http_protocol_class = PromptProtocol


def leave_values_to_tools(page: gr.Blocks) -> None:
    """Leave, on a page that was just launched with MCP, values to the tools: its library refuses a
    value of another type without the name of the argument. The endpoints check all values, and say
    what each must be."""
    server: Any = page.mcp_server_obj.mcp_server  # type: ignore[union-attr]
    handlers = server.request_handlers
    request_type = {each.__name__: each for each in handlers}["CallToolRequest"]
    call = handlers[request_type]

    async def no_schema(_tool: str) -> None:
        return None

    async def named(request: Any) -> Any:
        answer = await call(request)
        if answer.root.isError:
            for part in answer.root.content:
                part.text = miscall(part.text) or part.text
        return answer

    server._get_cached_tool_definition = no_schema
    handlers[request_type] = named


def wait_for_streams(page: gr.Blocks, seconds: float) -> None:
    """Wait until the clients of all queued events know how they ended, ``seconds`` at most."""
    ends = time.monotonic() + seconds
    pending = page._queue.pending_event_ids_session
    while any(list(pending.values())) and time.monotonic() < ends:
        time.sleep(0.02)


def check_sign_in(button: gr.LoginButton) -> None:
    """Have the page read on load who signed in, as Gradio's button does by itself, but not by a
    public endpoint."""
    from gradio.context import Context

    page, check = Context.root_block, button._check_login_status
    assert page is not None  # a button is made within the blocks of a page
    button.load_event_to_attach = None
    page.load(check, None, button, api_visibility="private", show_progress="hidden", queue=False)
