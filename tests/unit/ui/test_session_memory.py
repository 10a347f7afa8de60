"""Sessions of a page keep their values and nothing of what they showed. Gradio runs the events; nothing is served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio as gr
import pytest
from gradio.routes import App

from ui.kit import session_memory
from ui.kit.session_memory import remember_little


def _count(text: str, times: int) -> tuple[gr.Textbox, int]:
    return gr.Textbox(value=f"{text} {times + 1}", label=text), times + 1


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[gr.Blocks]:
    """Gradio makes event loops for it, which nobody would close: here it is one."""
    loop = asyncio.new_event_loop()
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", lambda: loop)
        blocks: gr.Blocks
        with gr.Blocks(analytics_enabled=False) as blocks:
            text, shown, times = gr.Textbox(), gr.Textbox(), gr.State(0)
            text.submit(_count, [text, times], [shown, times])
            text.blur(str.upper, text, shown)
        blocks.app = App.create_app(blocks)
    yield blocks
    loop.close()


def _run(page: gr.Blocks, session: str, event: int, given: list[str | None]) -> Any:
    """What the page shows after an event, which runs in a thread: in this one a browser may be driven."""
    running = page.process_api(event, given, state=page.state_holder[session])
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, running).result()["data"][0]


def _call(page: gr.Blocks, session: str) -> str:
    return str(_run(page, session, 0, ["a secret", None])["value"])


def test_values_are_kept_and_what_was_shown_is_not(page: gr.Blocks) -> None:
    described = page.state_holder["before"]
    assert described.config_values  # what gradio keeps by itself
    remember_little(page)
    assert page.app.state_holder is page.state_holder
    assert [_call(page, "a") for _ in range(3)] == ["a secret 1", "a secret 2", "a secret 3"]
    assert _call(page, "b") == "a secret 1"
    assert _run(page, "b", 1, ["a secret"]) == "A SECRET"
    assert {name: list(one.state_data.values()) for name, one in page.state_holder.session_data.items()} == {
        "a": [3], "b": [1]
    }  # fmt: skip
    assert not any(one.config_values for one in page.state_holder.session_data.values())


def test_sessions_unused_for_longest_go_first(page: gr.Blocks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_memory, "MOST_SESSIONS", 2)
    remember_little(page)
    for session in "abac":
        _call(page, session)
    assert list(page.state_holder.session_data) == ["a", "c"]
    assert list(page.state_holder.time_last_used) == ["a", "c"]
