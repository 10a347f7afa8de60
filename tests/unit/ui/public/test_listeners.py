"""A turn is for whoever listens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.serving import serving


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def test_what_nobody_listens_to_ends_where_others_wait(tmp_path: Path) -> None:
    heard, over = threading.Event(), threading.Event()

    def steps(name: str) -> int:
        return (tmp_path / name).stat().st_size if (tmp_path / name).exists() else 0

    def closed() -> set[str]:
        return {path.stem for path in tmp_path.glob("*.closed")}

    def begin(name: str) -> str:
        answer = httpx.post(f"{url}/run", json={"data": [name]}, timeout=60)
        until(lambda: steps(name))
        return str(answer.json()["event_id"])

    def listen() -> None:
        with httpx.stream("GET", f"{url}/run/{event}", timeout=60) as stream:
            for _ in stream.iter_bytes():
                heard.set()
                if over.is_set():
                    return

    with serving("tests.unit.ui.public.endless", tmp_path / "log", tmp_path) as page:
        url = f"{page.url}/gradio_api/call"
        event = begin("heard")
        thread = threading.Thread(target=listen)
        thread.start()
        until(heard.is_set)
        begin("unheard")
        until(lambda: steps("unheard") > 200)  # two seconds and more, in which nobody waits
        assert closed() == set()
        (tmp_path / "others").touch()
        until(closed)
        now = steps("heard")
        until(lambda: steps("heard") > now + 200)
        assert closed() == {"unheard"}
        over.set()
        thread.join(60)
        until(lambda: "heard" in closed())  # as Gradio does it
