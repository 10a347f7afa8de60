"""What is used of Gradio's internals is there and does what it should."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from gradio import http_server, state_holder
from uvicorn import Config

from tests.unit.ui.helpers import one_loop
from ui.kit import gradio_compat
from ui.kit.gradio_compat import (
    FaultyBlocks,
    limit_arrival,
)


def _count(text: str, times: int) -> tuple[gr.Textbox, int]:
    return gr.Textbox(value=f"{text} {times + 1}", label=text), times + 1


def _report(event: gr.EventData) -> str:
    return str(event._data)


@pytest.fixture
def page() -> gr.Blocks:
    blocks: gr.Blocks
    with one_loop(), FaultyBlocks(analytics_enabled=False) as blocks:
        text, upper, times = gr.Textbox(), gr.Textbox(), gr.State(0)
        text.submit(_count, [text, times], [upper, times])
        text.blur(str.upper, text, upper)
        text.focus(_report, None, upper)
    return blocks


def test_a_field_that_reports_its_long_text_is_answered_and_its_report_dropped(
    page: gr.Blocks,
) -> None:
    focus = page.fns[2]
    event = gr.EventData(None, "x" * 100_000)
    with ThreadPoolExecutor(1) as thread:  # a browser's test leaves a loop running in this one
        processed = page.process_api(focus, [], event_data=event)
        answer = thread.submit(asyncio.run, processed).result()
    assert answer["data"] == ["{}"]


def test_what_an_event_leaves_as_it_is_is_not_built_anew_and_the_answer_is_gradios() -> None:
    with one_loop(), FaultyBlocks(analytics_enabled=False) as page:
        outputs = first, second, state = gr.Textbox(), gr.Textbox(), gr.State(0)
        first.change(str, first, list(outputs))
    skip, update = gr.skip(), gr.update(value="new", label="b")
    for inputs, built in (
        ({first: "new"}, []),
        ({first: skip, second: None}, []),
        ({first: skip, state: 7}, []),
        ({state: skip}, []),
        ({first: ["x"]}, []),
        ({second: update}, [second]),
        ({first: "new", second: update, state: 8}, [second]),
    ):
        answers = []
        for owner in (FaultyBlocks, gr.Blocks):
            session_state = state_holder.SessionState(page)
            values = {
                each: copy(value) for each, value in inputs.items()
            }  # Gradio empties an update
            predictions = owner.postprocess_data(page, page.fns[0], values, session_state)
            with ThreadPoolExecutor(1) as thread:
                answers.append(
                    (thread.submit(asyncio.run, predictions).result(), session_state[state._id])
                )
            if owner is FaultyBlocks:
                assert [
                    each for each in (first, second) if session_state[each._id] is not each
                ] == built
        assert answers[0] == answers[1], inputs


def test_a_frame_never_changes_an_update_that_may_still_wait_to_be_shown() -> None:
    """A browser changes the frame before in place. Texts, which it replaces, may stay edits."""
    with one_loop(), FaultyBlocks(analytics_enabled=False) as page:
        outputs = gr.Column(), gr.Textbox()
        outputs[1].change(str, outputs[1], list(outputs))
    skip, shown = gr.skip(), gr.update(elem_classes=["shown"])
    frames = [[shown, "a"], [skip, "ab"], [skip, "ab"], [shown, "b"]]
    first, *later = [
        page.handle_streaming_diffs(page.fns[0], [*frame], "session", "run", final=False)
        for frame in frames
    ]
    whole = [["replace", [], skip]], [], [["replace", [], shown]]
    texts = [["append", [], "b"]], [], [["replace", [], "b"]]
    assert first == frames[0]
    assert later == [[*each] for each in zip(whole, texts, strict=True)]
    last = page.handle_streaming_diffs(page.fns[0], [None, None], "session", "run", final=True)
    assert last == frames[-1]


def test_a_request_that_does_not_arrive_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow headers, slow bodies and what comes after an answer; complete requests take as long as they
    take."""
    monkeypatch.setattr(gradio_compat, "ARRIVAL_S", 0.3)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "POST":
            while (await receive()).get("more_body"):
                pass
        else:
            await asyncio.sleep(0.8)
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        )
        await send({"type": "http.response.body", "body": b"ok"})

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = Config(
        app,
        port=port,
        log_level="error",
        lifespan="off",
        timeout_keep_alive=1,
        timeout_graceful_shutdown=1,
    )
    server = http_server.Server(config)
    server.run_in_thread()
    limit_arrival(SimpleNamespace(server=server))  # type: ignore[arg-type]
    try:
        sent = {
            b"": b"408",
            b"GET / HTTP/1.1\r\nhost: a\r\nx": b"408",
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n1": b"408",
            b"GET / HTTP/1.1\r\nhost: a\r\n\r\n": b"200",
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n1": b"200",
        }
        for request, status in sent.items():
            with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
                slow.sendall(request)
                assert slow.recv(100).startswith(b"HTTP/1.1 " + status), request
                while slow.recv(100):  # until the connection is closed
                    pass
    finally:
        server.close()
