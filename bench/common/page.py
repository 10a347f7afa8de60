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
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)


def wait(url: str) -> None:
    """Wait until the address responds with 200. Raises TimeoutError."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
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
def serving(folder: Path) -> Iterator[str]:
    """Serve ``app.py`` with a database in ``folder``, once it responds. Python keeps what
    it compiles, as by default. Raises TimeoutError."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    variables = os.environ | {
        "HOST": "127.0.0.1",
        "PORT": port,
        "MARS_DATABASE_URL": f"sqlite:///{folder}/runs.db",
        "MARS_PAIRS": "bundled",
    }
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    command, url = [sys.executable, "app.py"], f"http://127.0.0.1:{port}/"
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log) as process,
    ):
        try:
            wait(url)
            yield url
        finally:
            process.terminate()
