"""The real page in a real browser: one server and one Chromium for all tests, a fresh window for each."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.unit.ui.public.conftest import served as public

__all__ = ["public"]
ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "screenshots"
START_S = 180.0
PATIENCE_MS = 60_000  # for whatever a busy machine takes its time with
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP *.example 127.0.0.1",
]  # fmt: skip


@dataclass(frozen=True)
class Server:
    """A running page; ``database`` is its store's URL."""

    url: str
    database: str


@dataclass
class Window:
    """A page with what went wrong in it."""

    page: Page
    outside: list[str] = field(default_factory=list)  # requests that left this machine
    errors: list[str] = field(default_factory=list)  # uncaught exceptions of scripts

    def shot(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "log"
    with log.open("w") as stream:
        command = [sys.executable, "-m", "tests.browser.serve", str(folder), str(port)]
        process = subprocess.Popen(command, cwd=ROOT, stderr=stream, stdout=stream)
        try:
            _wait(f"http://127.0.0.1:{port}/", process, log)
            yield Server(f"http://127.0.0.1:{port}/", f"sqlite:///{folder / 'runs.db'}")
        finally:
            process.terminate()
            code = process.wait(timeout=30)
    assert code == 0, f"SIGTERM must end the page cleanly; it ended with {code}:\n{log.read_text()}"


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"The page did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("MARS_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("No Chromium: run `make test`, which finds or installs one, or set MARS_BROWSER to its path.")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def size() -> ViewportSize:
    """Of the window; a test may override it."""
    return ViewportSize(width=1280, height=900)


@pytest.fixture
def window(server: Server, browser: Browser, size: ViewportSize) -> Iterator[Window]:
    """A fresh window on the page. Afterwards: nothing left this machine, and no script failed."""
    context = browser.new_context(viewport=size, color_scheme="light", reduced_motion="reduce", accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    window = Window(context.new_page())
    window.page.on("request", lambda request: _note_outside(window, request.url))
    window.page.on("pageerror", lambda error: window.errors.append(str(error)))
    window.page.goto(server.url)
    window.page.wait_for_selector("#compare")
    yield window
    context.close()
    assert window.outside == []
    assert window.errors == []


def _note_outside(window: Window, url: str) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
        window.outside.append(url)
