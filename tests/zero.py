"""A stand-in for ``spaces.GPU`` that does what the real one does on ZeroGPU: every call is served
by a process forked from this one.

As in ``spaces/zero/wrappers.py`` (0.51): arguments and values go through pickle; the process
stays for the next call; a closed generator sets an event that the process looks at after each
value, and waits until it has; what the task raises comes back as an error that names its class only; a
process that dies ends the call with "GPU task aborted".
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

FORK = multiprocessing.get_context("fork")
END, VALUE, ERROR = "end", "value", "error"


class TaskError(Exception):
    """What ``spaces`` raises, there as a gr.Error."""


@dataclass(slots=True)
class Worker:
    """A forked process and its pipe."""

    task: Callable[..., Generator[Any, None, None]]
    stop: Any = field(default_factory=FORK.Event)
    pipe: Any = field(init=False)
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        self.pipe, there = FORK.Pipe()
        self.process = FORK.Process(
            target=_serve, args=(self.task, there, self.pipe, self.stop), daemon=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # a fork of a process with threads, as there
            self.process.start()
        there.close()


def _serve(
    task: Callable[..., Generator[Any, None, None]],
    pipe: Connection,
    parents: Connection,
    stop: Any,
) -> None:
    import torch

    parents.close()
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    while True:
        try:
            arguments = pickle.loads(pipe.recv_bytes())
        except EOFError:
            os._exit(0)
        stop.clear()
        values = task(*arguments)
        try:
            for value in values:
                if stop.is_set():
                    values.close()
                    break
                pipe.send_bytes(pickle.dumps((VALUE, value)))
        except Exception as error:  # noqa: BLE001  as there
            pipe.send_bytes(pickle.dumps((ERROR, type(error).__name__)))
        pipe.send_bytes(pickle.dumps((END, None)))


class ForkingGpu:
    """The decorator. ``durations``: seconds that calls requested; ``crossed``: bytes of their
    arguments."""

    def __init__(self) -> None:
        self.durations: list[float] = []
        self.crossed: list[bytes] = []
        self.worker: Worker | None = None  # idle
        self.pids: list[int] = []  # of all processes, the latest last

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
        worker, self.worker = self.worker, None
        if worker is None or not worker.process.is_alive():
            worker = Worker(task)
            self.pids.append(worker.process.pid)
        self.crossed.append(pickle.dumps(arguments))
        worker.pipe.send_bytes(self.crossed[-1])
        closed = False
        while True:
            try:
                kind, value = pickle.loads(worker.pipe.recv_bytes())
            except (EOFError, ConnectionResetError):
                raise TaskError("ZeroGPU worker error: GPU task aborted") from None
            if kind == END:
                self.worker = worker
                return
            if kind == ERROR:
                raise TaskError(value)
            if closed:
                continue  # until the process is through
            try:
                yield value
            except GeneratorExit:
                worker.stop.set()
                closed = True

    def kill(self) -> None:
        """The process that computes."""
        os.kill(self.pids[-1], signal.SIGKILL)

    def close(self) -> None:
        if self.worker is not None:
            self.worker.pipe.close()
            self.worker.process.join(5)
