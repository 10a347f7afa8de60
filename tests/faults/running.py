"""The real page in a process of its own, with the bundled pair, and a program that asks it for comparisons over plain HTTP."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0  # a start takes a minute on a busy machine
OWNER = "a-program-of-the-tests-and-nobody-else"
LONG = {
    "prompt": "Tell me a story about Mia and a lantern.",
    "rules": ["none"],
    "drafter": "none",
    "max_new_tokens": 320,
}
SHORT = LONG | {"max_new_tokens": 8}
SLOW = LONG | {"prompt": "Tell me a story about Mia and a lantern, slowly."}  # tests/slow_runs.py


@dataclass(slots=True)
class Running:
    """A page that runs. ``log``: what it wrote so far."""

    url: str
    process: subprocess.Popen[bytes]
    log_file: Path
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=PATIENCE_S))

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def call(self, name: str, body: Mapping[str, Any], owner: str = OWNER) -> Iterator[tuple[str, Any]]:
        """Events of an endpoint, as (name, data)."""
        headers = {"x-mars-visitor": owner}
        answer = self.client.post(f"{self.url}gradio_api/call/v2/{name}", json=dict(body), headers=headers)
        answer.raise_for_status()
        place = f"{self.url}gradio_api/call/{name}/{answer.json()['event_id']}"
        with self.client.stream("GET", place, headers=headers) as stream:
            event = ""
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield event, json.loads(line.removeprefix("data: "))

    def ask(self, name: str, body: Mapping[str, Any], owner: str = OWNER) -> tuple[str, Any]:
        """The last event: ``complete`` with the result, or ``error``."""
        last: tuple[str, Any] = ("", None)
        for event, data in self.call(name, body, owner):
            if event != "heartbeat":
                last = (event, data[0] if event == "complete" else data)
        return last

    def begin(self, body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """A comparison that has written its first tokens; what comes next."""
        events = self.call("compare", body)
        for event, data in events:
            if event == "generating" and data and data[0].get("id") and data[0].get("progress", 0) > 0:
                return events
        raise AssertionError(f"The comparison did not begin; the page's log:\n{self.log}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_S)

    def limit_files(self, most: int) -> None:
        """From now on no file may pass so many bytes: a write fails with an error, as on a full disk."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


@contextmanager
def running(folder: Path, *, unready: str = "", **environment: str) -> Iterator[Running]:
    """A public page over ``folder``/runs.db, once its pair is in memory. ``unready``: the one reason for which it may not be ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = {
        "HOST": "127.0.0.1", "PORT": str(port), "MARS_PUBLIC": "on", "MARS_DEVICE": "cpu",
        "MARS_DATABASE_URL": f"sqlite:///{folder / 'runs.db'}",
    }  # fmt: skip
    log_file = folder / "log"
    command = [sys.executable, "-m", "tests.slow_runs"]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | said | environment, stdout=log, stderr=log)
    page = Running(f"http://127.0.0.1:{port}/", process, log_file)
    try:
        until = time.monotonic() + PATIENCE_S
        while not _ready(page, unready):
            if time.monotonic() > until or process.poll() is not None:
                raise AssertionError(f"The page is not ready; its log:\n{page.log}")
            time.sleep(0.1)
        yield page
    finally:
        process.kill()
        process.wait()
        page.client.close()


def _ready(page: Running, unready: str) -> bool:
    try:
        answer = page.client.get(f"{page.url}ready")
    except httpx.TransportError:
        return False
    assert answer.status_code in (200, 503) and answer.json()["ready"] is (answer.status_code == 200)
    return bool(answer.json()["reasons"] == ([unready] if unready else []))
