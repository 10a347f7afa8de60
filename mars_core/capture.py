"""Device operations that are captured once as a CUDA graph and replayed, and buffers for their
inputs from the host.

A replay changes device memory only: Python assignments in a captured function run during the
capture, not during a replay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

_WARM_UPS = 2

Outputs = TypeVar("Outputs")
Item = TypeVar("Item")


class Captured(Generic[Outputs]):
    """A function over tensors at fixed addresses, captured during construction. The constructor
    calls it several times, so calling it again with the same inputs must change nothing.
    ``outputs`` are allocated then; ``replay`` computes their values. It may overwrite the outputs
    of captures that were made later, so that those of a step are replayed in the order in which
    they were made."""

    def __init__(self, function: Callable[[], Outputs], device: torch.device) -> None:
        stream, present = _stream(device), torch.cuda.current_stream(device)
        stream.wait_stream(present)
        with torch.cuda.stream(stream):
            for _ in range(
                _WARM_UPS
            ):  # workspaces and constants are allocated on first use, outside the graph
                function()
        present.wait_stream(stream)
        self._function = function  # its tensors must live as long as the graph
        self._graph = torch.cuda.CUDAGraph()
        pool = _pool(device)
        with torch.cuda.graph(
            self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"
        ):
            self.outputs = function()

    def replay(self) -> Outputs:
        self._graph.replay()
        return self.outputs


class Graphs:
    """The captures of an engine, each under the key of what it computes; under None nothing is
    captured. ``set_up_s``: what captures of this step took. At most about ``most`` are kept."""

    def __init__(self, device: torch.device, most: int) -> None:
        self.set_up_s = 0.0
        self._device, self._most = device, most
        self._captured: dict[Hashable, Captured[Any]] = {}  # in the order of the captures

    def begin_step(self) -> bool:
        """Return whether all captures were dropped, as there were too many: they read each other's
        results."""
        self.set_up_s = 0.0
        full = len(self._captured) > self._most
        if full:
            self._captured.clear()
        return full

    def ready(self, key: Hashable, function: Callable[[], Outputs]) -> Callable[[], Outputs]:
        """Return ``function``, or the replay of its capture under ``key``, which is created if
        there is none."""
        if key is None:
            return function
        if key not in self._captured:
            started = time.perf_counter()
            self._captured[key] = Captured(function, self._device)
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            self.set_up_s += time.perf_counter() - started
        return self._captured[key].replay

    def in_order(self, keys: Mapping[Item, Hashable]) -> Sequence[Item]:
        """Return the items in the order in which their keys were captured, new ones last: see
        ``Captured``."""
        number = {key: at for at, key in enumerate(self._captured)} if len(keys) > 1 else {}
        return sorted(keys, key=lambda item: number.get(keys[item], len(number)))


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of all warm-ups and captures: libraries allocate a workspace per stream."""
    return torch.cuda.Stream(device)


@cache
def _pool(device: torch.device) -> Any:
    """Return the memory pool shared by the graphs of a device: what a graph needs only while it
    runs is free for the outputs of later ones."""
    with torch.cuda.device(device):
        return torch.cuda.graph_pool_handle()


class PinnedBuffer:
    """A buffer for copying numbers to the device, at fixed addresses on both sides; on a CPU both
    are the same memory."""

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._on_cuda = device.type == "cuda"
        self._host = torch.zeros(size, dtype=dtype, pin_memory=self._on_cuda)
        self._device = (
            torch.zeros(size, dtype=dtype, device=device) if self._on_cuda else self._host
        )

    def send(self, values: Sequence[float] | Tensor) -> Tensor:
        """Return the values [n] on the device, copied asynchronously. Call it only after the
        previous copy is complete."""
        host_values = torch.as_tensor(values, dtype=self._host.dtype)
        there = self._device[: len(host_values)]
        self._host[: len(host_values)] = host_values
        return (
            there.copy_(self._host[: len(host_values)], non_blocking=True)
            if self._on_cuda
            else there
        )


def received(values: Tensor) -> Tensor:
    """Return a copy of device values on the host, valid once the device has reached this point."""
    if values.device.type != "cuda":
        return values
    return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(
        values, non_blocking=True
    )


class Stopwatch:
    """Two time marks on the device's timeline, read after the work is done."""

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
        """Seconds between the marks, once the device has passed them."""
        if self._on_cuda:
            return float(self._events[0].elapsed_time(self._events[1])) / 1000
        return self._seconds[1] - self._seconds[0]
