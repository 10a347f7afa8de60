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

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
PATIENCE_S, WINDOW_MS = 120.0, 1500.0
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]


class PageServer(NamedTuple):
    """A running page in a window. ``started``: start of its process, on ``time.monotonic``."""

    window: Page
    url: str
    started: float


def wait(url: str) -> None:
    """Until the address responds with 200. Raises TimeoutError."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"The page did not answer within {PATIENCE_S:.0f} s.")


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """Raises FileNotFoundError. ``arguments``: further ones of its command."""
    path = (
        os.environ.get("MARS_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if path is None:
        raise FileNotFoundError(
            "No Chromium: run `make test`, which finds or installs one, or set MARS_BROWSER to its "
            "path."
        )
    with sync_playwright() as playwright:
        launch = playwright.chromium.launch
        browser = launch(executable_path=path, args=[*ARGUMENTS, *arguments])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, folder: Path) -> Iterator[PageServer]:
    """``app.py`` with a database in ``folder``, in a window, once Compare can be clicked. Python
    keeps what it compiles, as by default.

    The window is opened first, since Chromium loads its interface for it, as a visitor's has
    long before. Raises TimeoutError.
    """
    window = browser.new_page(reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    window.set_default_timeout(1000 * PATIENCE_S)
    window.wait_for_timeout(WINDOW_MS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    database = f"sqlite:///{folder}/runs.db"
    variables = os.environ | {"PORT": port, "HOST": "127.0.0.1", "MARS_DATABASE_URL": database}
    variables["MARS_PAIRS"] = "bundled"
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    page = PageServer(window, f"http://127.0.0.1:{port}/", time.monotonic())
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=ROOT, env=variables, stdout=log, stderr=log
        )
        try:
            wait(page.url)
            window.goto(page.url)
            # a locator looks twice a second only
            window.wait_for_function("document.querySelector('#compare:enabled')")
            yield page
        finally:
            window.close()
            process.terminate()
            process.wait(timeout=30)
