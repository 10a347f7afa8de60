"""A page in a separate process: started on a free port, waited for, ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[1]
PATIENCE_S = 240.0  # a start takes a minute on a busy machine


@dataclass(frozen=True)
class Serving:
    """``log_file``: all that the process writes."""

    url: str  # without a slash at its end
    port: int
    log_file: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class Server:
    """A running page; ``database`` is its store's URL."""

    url: str
    database: str


def until(condition: Callable[[], object]) -> None:
    """Wait for what other threads or processes bring about."""
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(
    module: str,
    log_file: Path,
    *arguments: object,
    ready: Path | Callable[[str], bool] | None = None,
    **variables: str,
) -> Iterator[Serving]:
    """``python -m module arguments PORT`` with ``variables`` in its environment; ended by SIGTERM.

    It is there once it answers or, if set, has written the file ``ready`` or is called so by that
    function of its address.
    """
    port = free_port()
    command = [sys.executable, "-m", module, *map(str, arguments), str(port)]
    there = (
        ready.exists
        if isinstance(ready, Path)
        else partial(ready or _answers, f"http://127.0.0.1:{port}")
    )
    ports = {"PORT": str(port), "GRADIO_SERVER_PORT": str(port)}
    environment = os.environ | ports | {"GRADIO_ANALYTICS_ENABLED": "False"} | variables
    with (
        log_file.open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log) as process,
    ):
        page = Serving(f"http://127.0.0.1:{port}", port, log_file, process)
        try:
            until = time.monotonic() + PATIENCE_S
            while not there():
                if time.monotonic() > until or process.poll() is not None:
                    pytest.fail(f"The page did not start:\n{page.log}")
                time.sleep(0.1)
            yield page
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=60).is_success
    except httpx.TransportError:
        return False
