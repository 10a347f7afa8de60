"""Steps of fixed shape: the same device operations over the same memory every time, recorded as CUDA graphs where there is CUDA.

A step is told its numbers in one copy to the device, and answers in one copy back. Between them the host decides nothing. Without
CUDA the same operations are called one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Generic, TypeVar

import torch
from torch import Tensor

from mars_core.decoder import synchronise
from mars_core.decoder.direct_cache import DirectCache
from mars_core.decoder.spans import fixed
from mars_core.drafting.base import FixedDrafter
from mars_core.verification import Draft

NARROWEST = 256  # rows of the caches that a recording looks at; a longer text takes a recording of twice as many
_WARM_UPS = 2

Made = TypeVar("Made")


class Recorded(Generic[Made]):
    """A function over tensors at fixed addresses, which may be called any number of times before it counts."""

    def __init__(self, function: Callable[[], Made], device: torch.device) -> None:
        self._function = function
        self._on_cuda = device.type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> Made:
        if not self._on_cuda:
            self.made = self._function()
        else:
            self.prepare()
            assert self._graph is not None
            self._graph.replay()
        return self.made

    @property
    def ready(self) -> bool:
        """Whether the next call only calls."""
        return not self._on_cuda or self._graph is not None

    def prepare(self) -> None:
        """Records, where that is still to be done; what is ``made`` has its place then, and its values after the next call."""
        if self.ready:
            return
        aside, present = torch.cuda.Stream(), torch.cuda.current_stream()
        aside.wait_stream(present)
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):  # workspaces and constants, made on first use, are no part of the recording
                self._function()
        present.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.made = self._function()
        self._graph = graph


class Letter:
    """Numbers on their way to the device: written on the host, copied without waiting."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self._host = torch.zeros(shape, dtype=dtype, pin_memory=device.type == "cuda")
        self.device = torch.zeros(shape, dtype=dtype, device=device)

    def send(self, values: Tensor) -> None:
        """The copy before must be over, which a step's answer says."""
        self._host.copy_(values)
        self.device.copy_(self._host, non_blocking=True)


class Stopwatch:
    """Marks on the device's own time line, read when all is done."""

    def __init__(self, device: torch.device) -> None:
        self._on_cuda = device.type == "cuda"
        self._events: list[torch.cuda.Event] = []
        self._times: list[float] = []

    def mark(self) -> None:
        if self._on_cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        else:
            self._times.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Between the marks. Waits for the last one."""
        if not self._on_cuda:
            return [after - before for before, after in zip(self._times, self._times[1:], strict=False)]
        self._events[-1].synchronize()
        pairs = zip(self._events, self._events[1:], strict=False)
        return [before.elapsed_time(after) / 1000 for before, after in pairs]


class FixedSteps:
    """The full steps of one engine. ``verify`` judges a draft with its uniforms [depth + 1, 3], after the target's logits."""

    def __init__(
        self, target: DirectCache, drafter: FixedDrafter, read: Callable[[Draft], Tensor],
        verify: Callable[[Tensor, Draft, Tensor], Tensor],
    ) -> None:  # fmt: skip
        self._target, self._drafter, self._read, self._verify = target, drafter, read, verify
        self._u = Letter((drafter.longest + 1, 3), torch.float64, target.device)
        self._told: Letter | None = None
        self._moved = drafter.longest + 1 if drafter.branches else 0
        self._parts: dict[int, tuple[Recorded[Draft], Recorded[Tensor]]] = {}
        self._host: Tensor | None = None  # where answers arrive
        self.set_up_s = 0.0  # of the latest step: recordings that were made for it

    def step(
        self, ids: Sequence[int], numbers: list[int], moves: Sequence[int], u: Tensor
    ) -> tuple[list[float], float]:
        """The answer of a step after ``ids``, and the seconds until it was drafted. ``moves``: the path of a tree that is still to
        be put in place, its root before the last ``len(moves)`` ids."""
        device = self._target.device
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            return self._step(ids, numbers, moves, u)

    def _step(
        self, ids: Sequence[int], numbers: list[int], moves: Sequence[int], u: Tensor
    ) -> tuple[list[float], float]:
        told = [len(ids) - 1, len(ids) - 1 - len(moves), *moves, *range(len(moves), self._moved), *numbers]
        if self._told is None:
            self._told = Letter((len(told),), torch.long, self._target.device)
        self._told.send(torch.tensor(told))
        self._u.send(u)
        if moves:
            start, path = self._told.device[1], self._told.device[2 : 2 + self._moved]
            self._target.move_to(start + path, start + self._target.lines.places[: self._moved])
        width = NARROWEST
        while width < len(ids) + max(self._target.nodes + 1, self._drafter.ahead):
            width *= 2
        draft, verify = self._recordings(width)
        self.set_up_s = self._set_up(draft, verify)
        watch = Stopwatch(self._target.device)
        watch.mark()
        draft()
        watch.mark()
        answer = self._answer(verify())
        watch.mark()
        drafting = watch.seconds()[0]
        return answer.tolist(), drafting

    def _recordings(self, width: int) -> tuple[Recorded[Draft], Recorded[Tensor]]:
        if width not in self._parts:
            told, u, device = self._told, self._u.device, self._target.device
            assert told is not None
            numbers = told.device[2 + self._moved :]
            draft = Recorded(lambda: self._drafter.fixed(numbers, u, width), device)

            def judged() -> Tensor:
                with fixed(self._target, told.device[0], width):
                    return self._verify(self._read(draft.made), draft.made, u)

            self._parts[width] = draft, Recorded(judged, device)
        return self._parts[width]

    def _set_up(self, draft: Recorded[Draft], verify: Recorded[Tensor]) -> float:
        """Records both parts, where that is still to be done: the seconds that it took."""
        if draft.ready and verify.ready:
            return 0.0
        started = time.perf_counter()
        features = self._target.fixed_features.clone()
        draft()  # its values are read when the second part is warmed up
        verify.prepare()
        self._target.fixed_features.copy_(features)  # the second part writes those of the next step, which begins anew
        synchronise(self._target.device)
        return time.perf_counter() - started

    def _answer(self, made: Tensor) -> Tensor:
        """The answer on the host; to be read when the device has come so far."""
        if made.device.type != "cuda":
            return made
        if self._host is None:
            self._host = torch.empty(made.shape, dtype=made.dtype, pin_memory=True)
        return self._host.copy_(made, non_blocking=True)
