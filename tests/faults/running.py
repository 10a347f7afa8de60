"""The real page in a separate process, with the bundled pair, and a program that asks it for
comparisons over plain HTTP."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from httpx_sse import connect_sse

from tests.serving import PATIENCE_S, Serving, serving

OWNER = "a-program-of-the-tests-and-nobody-else"
STORY = "Tell me a story about Mia and a lantern."
LONG = {"prompt": STORY, "rules": ["none"], "drafter": "none", "max_new_tokens": 320}
SHORT = LONG | {"max_new_tokens": 8}
SLOW = LONG | {"prompt": "Tell me a story about Mia and a lantern, slowly."}  # tests/slow_runs.py


@dataclass(frozen=True)
class Running(Serving):
    """A page that runs, and a program that asks it."""

    client: httpx.Client

    def call(
        self, name: str, body: Mapping[str, Any], owner: str = OWNER
    ) -> Iterator[tuple[str, Any]]:
        """Events of an endpoint, as (name, data)."""
        headers = {"x-mars-visitor": owner}
        answer = self.client.post(f"/gradio_api/call/v2/{name}", json=dict(body), headers=headers)
        answer.raise_for_status()
        address = f"/gradio_api/call/{name}/{answer.json()['event_id']}"
        with connect_sse(self.client, "GET", address, headers=headers) as stream:
            for event in stream.iter_sse():
                yield event.event, event.json()

    def request(self, name: str, body: Mapping[str, Any], owner: str = OWNER) -> tuple[str, Any]:
        """The last event: ``complete`` with the result, or ``error``."""
        event, data = [each for each in self.call(name, body, owner) if each[0] != "heartbeat"][-1]
        return event, data[0] if event == "complete" else data

    def begin(self, body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """A comparison that has written its first tokens; what comes next."""
        events = self.call("compare", body)
        for event, data in events:
            if (
                event == "generating"
                and data
                and data[0].get("id")
                and data[0].get("progress", 0) > 0
            ):
                return events
        raise AssertionError(f"The comparison did not begin; the page's log:\n{self.log}")

    def stop(self) -> int:
        """Send SIGTERM, and wait for the exit status."""
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE_S)

    def limit_files(self, most: int) -> None:
        """From now on no file may pass so many bytes: a write fails with an error, as on a full
        disk."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


@contextmanager
def running(folder: Path, *, unready: str = "", **environment: str) -> Iterator[Running]:
    """A public page over ``folder``/runs.db, once its pair is in memory. ``unready``: the one
    reason for which it may not be ready."""
    defaults = {
        "HOST": "127.0.0.1",
        "MARS_PUBLIC": "on",
        "MARS_DEVICE": "cpu",
        "MARS_PAIRS": "bundled",
        "MARS_DATABASE_URL": f"sqlite:///{folder / 'runs.db'}",
    }

    def ready(url: str) -> bool:
        try:
            answer = httpx.get(f"{url}/ready", timeout=PATIENCE_S)
        except httpx.TransportError:
            return False
        assert answer.status_code in (200, 503) and answer.json()["ready"] is (
            answer.status_code == 200
        )
        return bool(answer.json()["reason"] == unready)

    with (
        serving("tests.slow_runs", folder / "log", ready=ready, **(defaults | environment)) as page,
        httpx.Client(base_url=page.url, timeout=PATIENCE_S) as client,
    ):
        yield Running(**vars(page), client=client)
