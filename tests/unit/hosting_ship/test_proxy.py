"""The examples for nginx are what nginx takes, and what the page does without the queue gets
through the doors of public mode."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.answering import Answers, answering
from tests.serving import free_port
from ui.public.access import is_open

DEPLOY = Path(__file__).parents[3] / "deploy"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")


def example(folder: Path, pages: str, port: int = 1) -> list[str]:
    """The command of an nginx with all examples, which listens on ``port`` and asks ``pages``."""
    text = (DEPLOY / "nginx" / "mars.conf").read_text(encoding="utf-8")
    assert "proxy_pass http://127.0.0.1:7860/;" in text
    (folder / "mars.conf").write_text(
        text.replace("http://127.0.0.1:7860/", pages), encoding="utf-8"
    )
    for name in ("limits.conf", "two-pages.conf"):
        shutil.copy(DEPLOY / "nginx" / name, folder)
    folders = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; error_log stderr; daemon off; master_process off; events {{}} http {{ access_log off; {folders}"
        f" include {folder}/limits.conf; include {folder}/two-pages.conf;"
        f" server {{ listen 127.0.0.1:{port}; include {folder}/mars.conf; }} }}",
        encoding="utf-8",
    )
    return [str(NGINX), "-c", str(folder / "nginx.conf")]


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("pages", ["http://127.0.0.1:7860/", "http://mars_pages/"])
def test_nginx_takes_the_examples(pages: str, tmp_path: Path) -> None:
    result = subprocess.run([*example(tmp_path, pages), "-t"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


class Holding(Answers):
    """A page: a request of ``/hold`` it begins to answer, and ends once the test has
    seen enough."""

    seen = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"a")
        self.wfile.flush()
        if self.path == "/hold":
            self.seen.wait()
        self.wfile.write(b"b")


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_limits_the_requests_and_open_connections_of_an_address(tmp_path: Path) -> None:
    """And neither opening a page, with its files, nor what is open with it comes near."""
    Holding.seen.clear()
    with (
        answering(Holding) as page,
        ExitStack() as held,
    ):
        held.callback(Holding.seen.set)
        port = free_port()
        nginx = held.enter_context(subprocess.Popen(example(tmp_path, f"{page}/", port)))
        held.callback(nginx.terminate)
        client = held.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}/mars", timeout=60, limits=httpx.Limits()
            )
        )
        while nginx.poll() is None:
            with suppress(httpx.ConnectError):
                assert client.get("/").status_code == 200
                break
        opened = [held.enter_context(client.stream("GET", "/hold")).status_code for _ in range(30)]
        assert opened == [200] * 24 + [429] * 6
        assert client.get("/").status_code == 429 and client.get("/assets/x.js").status_code == 200
        served = 0
        while client.get("/assets/x.js").status_code == 200:
            served += 1
        assert served >= 300


def test_event_streams_are_not_held_back() -> None:
    text = (DEPLOY / "nginx" / "mars.conf").read_text(encoding="utf-8")
    assert re.search(r"^\s*proxy_buffering off;", text, re.MULTILINE) and re.search(
        r"^\s*gzip off;", text, re.MULTILINE
    )


def test_events_without_a_queue_get_through() -> None:
    """The browser sends them to run/: with that door closed, nothing on a public page answers."""
    assert is_open("/gradio_api/run/predict") and is_open("/gradio_api/queue/join")
    assert not is_open("/gradio_api/upload") and not is_open("/gradio_api/file=/etc/passwd")
