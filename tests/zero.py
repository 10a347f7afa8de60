"""A stand-in for ``spaces.GPU`` that does what the real one does on ZeroGPU: every call is served
by a process forked from this one.

As in ``spaces/zero/wrappers.py`` (0.51): arguments and values go through pickle; the process
stays for the next call; a closed generator sets an event that the process looks at after each
value, and waits until it has; what the task raises comes back as an error that names its class only; a
process that dies ends the call with "GPU task aborted".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from multiprocessing.connection import Connection
from typing import Any

from tests.unit.children import FORK, Child

END, VALUE, ERROR = "end", "value", "error"


class TaskError(Exception):
    """What ``spaces`` raises, there as a gr.Error."""


def _serve(pipe: Connection, task: Callable[..., Generator[Any, None, None]], stop: Any) -> None:
    import torch

    torch.set_num_threads(1)  # OpenMP does not survive a fork
    while True:
        arguments = pipe.recv()
        stop.clear()
        values = task(*arguments)
        try:
            for value in values:
                if stop.is_set():
                    values.close()
                    break
                pipe.send((VALUE, value))
        except Exception as error:  # noqa: BLE001  as there
            pipe.send((ERROR, type(error).__name__))
        pipe.send((END, None))


class ForkingGpu:
    """The decorator. ``durations``: seconds that calls requested; ``processes``: all of them, the
    latest last."""

    def __init__(self) -> None:
        self.durations: list[float] = []
        self.processes: list[Child] = []
        self._idle: Child | None = None
        self._stop = FORK.Event()

    def __call__(self, *, duration: Callable[..., float]) -> Callable[..., Any]:
        def decorate(task: Callable[..., Generator[Any, None, None]]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Generator[Any, None, None]:
                self.durations.append(duration(*arguments))
                assert math.isfinite(self.durations[-1])
                yield from self._values(task, arguments)

            return call

        return decorate

    def _values(
        self, task: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> Generator[Any, None, None]:
        process, self._idle = self._idle, None
        if process is None or not process.process.is_alive():
            process = Child(_serve, task, self._stop)
            self.processes.append(process)
        process.pipe.send(arguments)
        closed = False
        while True:
            try:
                kind, value = process.pipe.recv()
            except (EOFError, ConnectionResetError):
                raise TaskError("ZeroGPU worker error: GPU task aborted") from None
            if kind == END:
                self._idle = process
                return
            if kind == ERROR:
                raise TaskError(value)
            if closed:
                continue  # until the process is through
            try:
                yield value
            except GeneratorExit:
                self._stop.set()
                closed = True

    def kill(self) -> None:
        """The process that computes."""
        self.processes[-1].kill()

    def close(self) -> None:
        for each in self.processes:
            each.kill()
