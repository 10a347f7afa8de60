"""On a Gradio server: handlers that break, strange requests, and what the log and the
routes then say."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gradio_client import Client

from tests.serving import Serving, serving


def lines(page: Serving) -> list[dict[str, Any]]:
    """Whatever is no JSON is no line of the log, and fails."""
    return [json.loads(line) for line in page.log.splitlines()]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving("tests.unit.hosting.serve", tmp_path_factory.mktemp("page") / "log") as page:
        yield page


@pytest.fixture(scope="module")
def client(page: Serving) -> Client:
    return Client(page.url, verbose=False)


@pytest.mark.parametrize("name", ["/breaks", "/breaks_later", "/unqueued"])
def test_a_handler_that_breaks_is_one_record_without_the_prompt(
    page: Serving, client: Client, name: str
) -> None:
    before = len(lines(page))
    with pytest.raises(Exception, match=r"error|Error|wrong") as raised:
        client.predict("zebra", api_name=name)
    assert "zebra" not in str(raised.value)
    (line,) = [line for line in lines(page)[before:] if line["level"] == "error"]
    assert (line["logger"], line["where"]) == ("mars.uncaught", "printed")
    assert line["error"][0]["type"] == "RuntimeError"
    assert line["error"][0]["frames"][-1].startswith("tests/unit/hosting/serve.py:")
    assert "zebra" not in page.log


def test_a_route_that_breaks_answers_with_the_id_that_the_log_has(page: Serving) -> None:
    answer = httpx.get(
        f"{page.url}/broken/zebra?share=zebra", headers={"Cookie": "mars_visitor=zebra"}
    )
    assert answer.status_code == 500
    (line,) = [line for line in lines(page) if "fault" in line and line["fault"] in answer.text]
    assert line["where"] == "request /broken"
    assert "mars:faults_total " in httpx.get(f"{page.url}/metrics").text
    assert "zebra" not in page.log


def test_what_is_no_request_leaves_no_address_in_the_log(page: Serving) -> None:
    with socket.create_connection(("127.0.0.1", page.port)) as strange:
        strange.sendall(b"zebra \x00 127.0.0.1\r\n\r\n")
        assert b"400" in strange.recv(100)
    httpx.post(f"{page.url}/gradio_api/queue/join", content=b"{zebra")
    with contextlib.suppress(httpx.RemoteProtocolError):  # Gradio cuts it
        httpx.get(f"{page.url}/gradio_api/queue/data?session_hash=zebra")
    httpx.get(f"{page.url}/zebra")
    assert "zebra" not in page.log
    assert "127.0.0.1" not in page.log


def test_routes_stand_beside_the_page_and_every_answer_has_the_headers(page: Serving) -> None:
    answers = [
        httpx.get(page.url + path) for path in ("/", "/config", "/health", "/ready", "/metrics")
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    for answer in answers:
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["content-security-policy"].startswith(
            "frame-ancestors 'self' https://huggingface.co"
        )
    routes = {line.get("route") for line in lines(page)}
    assert "hosting.health._alive" in routes or "/health" in routes
