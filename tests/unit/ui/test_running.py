"""What Compare does after its last frame, or without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ui.kit.components import Strip, message_strip
from ui.kit.values import plain
from ui.tabs.compare.running import Running


@pytest.fixture
def running() -> Running:
    parts: Any = SimpleNamespace(
        stop="stop", update=lambda strip, _lanes: {"strip": strip}, show=lambda _: {"details": 1}
    )
    return Running(parts, parts, parts, parts)


def test_a_page_that_lost_the_connection_can_run_again(running: Running) -> None:
    changed: dict[Any, Any] = running.after("visitor", message_strip("Run 1 of 2", "running").html())
    strip: Strip = changed["strip"]
    assert strip.state == "failed" and plain(strip.parts).startswith("The connection was lost")
    assert changed["stop"]["value"] == "Stop" and changed["stop"]["interactive"]


@pytest.mark.parametrize("state", ["done", "cancelled", "failed"])
def test_what_came_of_a_run_stays(running: Running, state: str) -> None:
    assert set(running.after("visitor", message_strip("running", state).html())) == {"stop"}


def test_details_are_shown_once(running: Running) -> None:
    details: Any = object()
    running.ended.put("visitor", details)
    done = message_strip("", "done").html()
    assert "details" in running.after("visitor", done) and "details" not in running.after("visitor", done)
