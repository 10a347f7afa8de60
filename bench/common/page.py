"""The page in a separate process, and Chromium."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from bench.common.command import ROOT

PATIENCE_S, WINDOW_MS = 120.0, 1500.0
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]


class Served(NamedTuple):
    """A running page. ``started``: start of its process, on ``time.monotonic``; ``http_s``: seconds
    until the first response."""

    url: str
    process: psutil.Process
    started: float
    http_s: float


@contextmanager
def served(folder: Path, *program: str, **environment: str) -> Iterator[Served]:
    """Runs ``app.py``, or the ``program`` that Python is told to run, with a new database in
    ``folder``; Python keeps what it compiles, as by default. Raises TimeoutError."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    database = f"sqlite:///{folder}/runs.db"
    variables = (
        os.environ
        | {"PORT": port, "HOST": "127.0.0.1", "MARS_DATABASE_URL": database}
        | environment
    )
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    started, url = time.monotonic(), f"http://127.0.0.1:{port}/"
    with (folder / "log").open("w") as log:
        command = [sys.executable, *(program or ["app.py"])]
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)
        try:
            yield Served(url, psutil.Process(process.pid), started, answered(url, started))
        finally:
            process.terminate()
            process.wait(timeout=30)


def answered(url: str, started: float) -> float:
    """Seconds since ``started`` until the address responds with 200. Raises TimeoutError."""
    while time.monotonic() - started < PATIENCE_S:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return time.monotonic() - started
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"The page did not answer within {PATIENCE_S:.0f} s.")


@contextmanager
def chromium() -> Iterator[Browser]:
    path = (
        os.environ.get("MARS_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def window(browser: Browser) -> Iterator[Page]:
    """A new window, once Chromium has loaded its own interface for it, as a visitor's window has
    long before."""
    page = browser.new_page(reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    page.set_default_timeout(1000 * PATIENCE_S)
    page.wait_for_timeout(WINDOW_MS)
    yield page
    page.close()


def visit(page: Page, url: str) -> None:
    """Open the page and wait until Compare can be clicked."""
    page.goto(url)
    page.wait_for_function(
        "document.querySelector('#compare:enabled')"
    )  # a locator looks twice a second only


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """A new window with the page, on which Compare can be clicked."""
    with window(browser) as page:
        visit(page, url)
        yield page
