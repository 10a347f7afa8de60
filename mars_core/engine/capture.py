"""Device operations that are captured once as a CUDA graph and replayed, and what they are told from the host.

A replay changes memory and nothing else: what a function assigns in Python happens while it is captured, and never again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

_WARM_UPS = 2

Outputs = TypeVar("Outputs")


class Captured(Generic[Outputs]):
    """A function over tensors at fixed addresses, captured as it is constructed. It is called several times for that, so that calling
    it again with the same numbers must change nothing. ``outputs`` have their place then, and their values after ``replay``."""

    def __init__(self, function: Callable[[], Outputs], device: torch.device) -> None:
        stream, present = _stream(device), torch.cuda.current_stream(device)
        stream.wait_stream(present)
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):  # workspaces and constants, made on first use, are no part of the graph
                function()
        present.wait_stream(stream)
        self._function = function  # whose tensors must live as long as the graph
        self._graph = torch.cuda.CUDAGraph()
        pool = _pool(device)
        with torch.cuda.graph(self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            self.outputs = function()

    def replay(self) -> Outputs:
        self._graph.replay()
        return self.outputs


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """On which everything is warmed up and captured: libraries keep a workspace for each stream."""
    return torch.cuda.Stream(device)


@cache
def _pool(device: torch.device) -> Any:
    """One memory for the graphs of a device: they are replayed one after the other, and their outputs read before the next."""
    with torch.cuda.device(device):
        return torch.cuda.graph_pool_handle()


class PinnedBuffer:
    """Numbers on their way to the device, at one address on both sides; on a CPU the two sides are one."""

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._on_cuda = device.type == "cuda"
        self._host = torch.zeros(size, dtype=dtype, pin_memory=self._on_cuda)
        self._device = torch.zeros(size, dtype=dtype, device=device) if self._on_cuda else self._host

    def send(self, values: Sequence[float] | Tensor) -> Tensor:
        """The values [n] on the device, without waiting. The copy before must be over, which a step's answer says."""
        given = torch.as_tensor(values, dtype=self._host.dtype)
        there = self._device[: len(given)]
        self._host[: len(given)] = given
        return there.copy_(self._host[: len(given)], non_blocking=True) if self._on_cuda else there


def received(values: Tensor) -> Tensor:
    """The values of the device on the host, to be read once the device has come so far."""
    if values.device.type != "cuda":
        return values
    return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)


class Stopwatch:
    """Two marks on the device's own time line, read when all is done."""

    def __init__(self, device: torch.device) -> None:
        self._on_cuda = device.type == "cuda"
        self._events: list[torch.cuda.Event] = []
        self._seconds: list[float] = []

    def mark(self) -> None:
        if self._on_cuda:
            self._events.append(torch.cuda.Event(enable_timing=True))
            self._events[-1].record()
        else:
            self._seconds.append(time.perf_counter())

    def seconds(self) -> float:
        """Between the marks, once the device has passed them."""
        if self._on_cuda:
            return float(self._events[0].elapsed_time(self._events[1])) / 1000
        return self._seconds[1] - self._seconds[0]
