"""Processes forked from this one, so that they begin at once; they may be killed, or kill
themselves in the middle of a transaction.

Nothing that a process opens may be open here when it is forked: its SQLite would take the locks of
this one for its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from sqlalchemy import Engine, event

FORK = multiprocessing.get_context("fork")


class Child:
    """A process that runs ``work`` with its end of a pipe and the arguments."""

    def __init__(self, work: Callable[..., object], *arguments: object) -> None:
        self.pipe: Connection
        self.pipe, there = FORK.Pipe()
        self.process = FORK.Process(target=work, args=(there, *arguments), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork of a process with threads
            self.process.start()
        there.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def rest(self) -> list[Any]:
        """What it says until its end."""
        messages = []
        try:
            while True:
                messages.append(self.pipe.recv())
        except (EOFError, OSError):
            self.process.join()
            return messages


def dies_at(statement: str, number: int, moment: str = "after_cursor_execute") -> None:
    """Kill this process at the ``number``-th statement with this beginning; its cache is small, so
    that pages reach the file before."""
    calls = 0

    def count(_connection: object, _cursor: object, executed: str, *_rest: object) -> None:
        nonlocal calls
        if executed.startswith(statement):
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)

    def connected(connection: Any, _record: object) -> None:
        if hasattr(connection, "create_function"):
            connection.execute("PRAGMA cache_size = 5")

    event.listen(Engine, "connect", connected)
    event.listen(Engine, moment, count)
