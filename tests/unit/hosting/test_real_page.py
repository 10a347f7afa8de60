"""On a server of Gradio's own: handlers that break, strange requests, and what the log and the routes then say."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client

ROOT = Path(__file__).parents[3]
START_S = 120.0


@dataclass(frozen=True)
class Page:
    url: str
    port: int
    file: Path  # all that the process writes

    @property
    def log(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def lines(self) -> list[dict[str, Any]]:
        """Whatever is no JSON is no line of the log, and fails."""
        return [json.loads(line) for line in self.log.splitlines()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    port, file = free_port(), tmp_path_factory.mktemp("page") / "log"
    command = [sys.executable, "-m", "tests.unit.hosting.serve", str(port)]
    with file.open("w") as stream:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}, stdout=stream, stderr=stream
        )
    page = Page(f"http://127.0.0.1:{port}", port, file)
    try:
        _wait(page, process)
        yield page
    finally:
        process.kill()
        process.wait()


def _wait(page: Page, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"{page.url}/health").raise_for_status()
            return
        time.sleep(0.1)
    pytest.fail(f"The page did not start:\n{page.log}")


@pytest.fixture(scope="module")
def client(page: Page) -> Client:
    return Client(page.url, verbose=False)


@pytest.mark.parametrize("name", ["/breaks", "/breaks_later", "/unqueued"])
def test_a_handler_that_breaks_is_one_record_without_the_prompt(page: Page, client: Client, name: str) -> None:
    before = len(page.lines())
    with pytest.raises(Exception, match=r"error|Error|wrong") as told:
        client.predict("zebra", api_name=name)
    assert "zebra" not in str(told.value)
    (line,) = [line for line in page.lines()[before:] if line["level"] == "error"]
    assert (line["logger"], line["where"]) == ("mars.uncaught", "printed")
    assert line["error"][0]["type"] == "RuntimeError"
    assert line["error"][0]["frames"][-1].startswith("tests/unit/hosting/serve.py:")
    assert "zebra" not in page.log


def test_a_route_that_breaks_is_told_by_the_id_that_the_log_has(page: Page) -> None:
    answer = httpx.get(f"{page.url}/broken/zebra?share=zebra", headers={"Cookie": "mars_visitor=zebra"})
    assert answer.status_code == 500
    (line,) = [line for line in page.lines() if "fault" in line and line["fault"] in answer.text]
    assert line["where"] == "request /broken"
    assert "mars:faults_total " in httpx.get(f"{page.url}/metrics").text
    assert "zebra" not in page.log


def test_what_is_no_request_leaves_no_address_in_the_log(page: Page) -> None:
    with socket.create_connection(("127.0.0.1", page.port)) as strange:
        strange.sendall(b"zebra \x00 127.0.0.1\r\n\r\n")
        assert b"400" in strange.recv(100)
    httpx.post(f"{page.url}/gradio_api/queue/join", content=b"{zebra")
    with contextlib.suppress(httpx.RemoteProtocolError):  # Gradio cuts it
        httpx.get(f"{page.url}/gradio_api/queue/data?session_hash=zebra")
    httpx.get(f"{page.url}/zebra")
    assert "zebra" not in page.log
    assert "127.0.0.1" not in page.log


def test_routes_stand_beside_the_page_and_every_answer_has_the_headers(page: Page) -> None:
    answers = [httpx.get(page.url + path) for path in ("/", "/config", "/health", "/ready", "/metrics")]
    assert [answer.status_code for answer in answers] == [200] * 5
    for answer in answers:
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["content-security-policy"].startswith("frame-ancestors 'self' https://huggingface.co")
    routes = {line.get("route") for line in page.lines()}
    assert "hosting.health._alive" in routes or "/health" in routes
