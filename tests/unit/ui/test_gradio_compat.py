"""What is used of Gradio's internals is there and does what it should."""

from __future__ import annotations

import asyncio
import inspect
import socket
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from types import SimpleNamespace
from typing import Any

import gradio as gr
import jinja2
import pytest
from gradio import component_meta, context, events, http_server, state_holder
from mcp.server.lowlevel import Server
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

import ui
from tests.unit.ui.helpers import one_loop
from ui.kit import gradio_compat
from ui.kit.gradio_compat import (
    FaultyBlocks,
    forget_components,
    limit_arrival,
    report_progress_on,
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


def _run(page: gr.Blocks, session: str, event: int, inputs: list[str | None], **more: Any) -> Any:
    """What the page shows after an event, which runs in a thread: in this one a browser may be
    driven."""
    running = page.process_api(event, inputs, state=page.state_holder[session], **more)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, running).result()["data"][0]


def _call(page: gr.Blocks, session: str) -> str:
    return str(_run(page, session, 0, ["a secret", None])["value"])


def test_values_are_retained_and_displayed_ones_are_not(page: gr.Blocks) -> None:
    described = page.state_holder["before"]
    assert described.config_values  # what gradio keeps by itself
    forget_components(page)
    assert page.app.state_holder is page.state_holder
    assert [_call(page, "a") for _ in range(3)] == ["a secret 1", "a secret 2", "a secret 3"]
    assert _call(page, "b") == "a secret 1"
    assert _run(page, "b", 1, ["a secret"]) == "A SECRET"
    assert {
        name: list(one.state_data.values()) for name, one in page.state_holder.session_data.items()
    } == {"a": [3], "b": [1]}
    assert not any(one.config_values for one in page.state_holder.session_data.values())


def test_sessions_unused_for_longest_go_first(page: gr.Blocks) -> None:
    page.state_session_capacity = 2
    forget_components(page)
    for session in "abac":
        _call(page, session)
    assert list(page.state_holder.session_data) == ["a", "c"]
    assert list(page.state_holder.time_last_used) == ["a", "c"]


def test_what_is_used_of_gradio_is_there(page: gr.Blocks) -> None:
    """A name that is missing here was renamed by Gradio: change gradio_compat."""
    for owner, names in (
        (page, ("fns", "app", "_queue", "state_session_capacity", "default_config")),
        (page.fns[0], ("show_progress", "show_progress_on", "inputs", "name", "api_name")),
        (page._queue, ("event_ids_to_events", "pending_event_ids_session", "sleep_when_free")),
        (page.state_holder, ("session_data", "blocks", "set_blocks")),
        (
            state_holder.SessionState(page),
            ("config_values", "_update_config", "_update_value_in_config", "state_data"),
        ),
        (gr.EventData(None, {}), ("_data", "target")),
        (gr.LoginButton, ("_check_login_status",)),
        (context.Context, ("root_block",)),
        (Server, ("_get_cached_tool_definition",)),
        (H11Protocol, ("connection_made", "data_received", "connection_lost")),
    ):
        assert not [name for name in names if not hasattr(owner, name)], owner
    assert list(inspect.signature(gr.Blocks.postprocess_data).parameters) == [
        "self",
        "block_fn",
        "predictions",
        "state",
    ]
    assert {"event_data", "inputs"} <= set(inspect.signature(gr.Blocks.process_api).parameters)
    assert {"state_session_capacity", "app_kwargs", "max_file_size"} <= set(
        inspect.signature(gr.Blocks.launch).parameters
    )


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


def test_events_that_show_no_progress_report_to_one_component(page: gr.Blocks) -> None:
    page.fns[0].show_progress = "hidden"
    target = gr.HTML()
    report_progress_on(page, target)
    assert page.fns[0].show_progress_on == [target] and not page.fns[1].show_progress_on


def test_an_event_that_reports_no_object_reports_nothing(page: gr.Blocks) -> None:
    for reported in (5, "theta", ["theta"], None, True):
        assert _run(page, "a", 2, [], event_data=gr.EventData(None, reported)) == "{}", reported


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


def test_the_queue_rests_between_events() -> None:
    with one_loop():
        with FaultyBlocks(analytics_enabled=False) as page:
            gr.Textbox()
        assert page.queue() is page and page._queue.sleep_when_free == 0.01


def test_importing_gradio_parses_none_of_its_sources_and_renders_no_documentation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parse(*_arguments: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(component_meta, "extract_class_source_code", parse)
    with ui._without_documentation():
        component_meta.create_or_modify_pyi(gr.HTML, "HTML", [])
        assert inspect.getfile(pytest.MonkeyPatch)
        assert jinja2.Template("{{ word }}").render(word="a") == ""
    assert jinja2.Template("{{ word }}").render(word="a") == "a"
    assert component_meta.Template is events.Template is jinja2.Template
    with pytest.raises(AssertionError, match="parsed"):
        component_meta.create_or_modify_pyi(gr.HTML, "HTML", [])
