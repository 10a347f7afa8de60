"""Accelerators: a thread of this process, or on ZeroGPU a process that is forked for each job.

Only Jobs and events are exchanged. The decorator of ``spaces`` is passed in.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mars_core.jobs import AcceleratorError, Ended, Job, JobEvent, Stop, Wrote
from mars_core.models import ModelPool, PairSpec
from mars_core.types import Status, StopReason

LOOK_S = 0.05  # polling interval for a stop request from another process


class Local:
    """Executes all jobs in one thread. On a CPU a second thread would have OpenMP workers of its
    own, and with more workers than cores OpenMP stops busy-waiting, which more than halves the
    speed of small models. The thread computes up to the next event and then waits: an interval of
    steps costs two thread switches."""

    loads = True

    def __init__(self, pool: ModelPool, engine: Executor) -> None:
        self._pool, self._engine = pool, engine

    def run(self, job: Job, stop: Stop) -> Generator[JobEvent, None, None]:
        events = self._engine.submit(_perform, self._pool, job, stop.requested).result()
        try:
            while (event := self._engine.submit(next, events, None).result()) is not None:
                yield event
        finally:
            with suppress(RuntimeError):  # the engine was shut down
                self._engine.submit(events.close).result()

    def reserves_s(self, pair: PairSpec, new_tokens: Sequence[int]) -> int:  # noqa: ARG002
        return 0


def _perform(
    pool: ModelPool, job: Job, stopped: Callable[[], bool]
) -> Generator[JobEvent, None, None]:
    from mars_core.accelerators.perform import (
        perform,
    )  # imported here so that the page starts without transformers

    return perform(pool, job, stopped)


class ZeroGpu:
    """Executes each job in a process that ``gpu`` (the decorator ``spaces.GPU``) forks from this
    one.

    Constructed before the page is launched, in the main thread, where CUDA is emulated: all
    ``pairs`` are loaded then, and no other pair can be run. The call takes a job and a path and
    yields events; a file at that path requests a stop.

    The requested duration is checked against the visitor's quota before the call starts, and the
    process is killed at its end. It is estimated so that the job's deadline comes first:
    requested tokens, warm-ups included, times the mean pace of the pair's runs so far (initially
    ``PACE_S``) times 1.5, at most ``job.seconds`` and ``MAX_S``. ``SET_UP_S`` is added for copying
    the weights to the device.
    """

    loads = False
    PACE_S = 0.05  # per token; a generous value for an 8B target with a draft model
    SET_UP_S = 15
    MIN_S = 10
    MAX_S = 120
    WARM_UP = 32  # cost of a run's warm-up and prefill, in tokens

    def __init__(self, pool: ModelPool, pairs: Sequence[PairSpec], gpu: Callable[..., Any]) -> None:
        self._pool = pool
        self._pace_s: dict[str, float] = {}  # key of a pair → seconds per token
        self._pairs = tuple(pairs)
        for pair in pairs:
            pool.get(pair)
        self._call = gpu(duration=lambda job, _path: math.ceil(job.seconds) + self.SET_UP_S)(
            self._perform
        )

    def run(self, job: Job, stop: Stop) -> Generator[JobEvent, None, None]:
        """Run as ``Accelerator.run``. If the process dies, the current run is reported as failed
        and the job ends."""
        if job.pair not in self._pairs:
            raise AcceleratorError(
                f"The pair {job.pair.title!r} was not loaded onto the GPU when this page started; "
                "choose another."
            )
        under_way: int | None = None
        with _stop_file(stop) as path:
            events = self._call(self.granted(job), path)
            try:
                for event in events:
                    under_way = None if isinstance(event, Ended) else event.run
                    if (
                        isinstance(event, Wrote) and event.last and event.steps
                    ):  # the mean pace learns from the run
                        step = event.steps[-1]
                        tokens = step.emitted[-1].position + 1 - len(job.configs[event.run].prefix)
                        before = self._pace_s.get(job.pair.key, step.elapsed_s / tokens)
                        self._pace_s[job.pair.key] = 0.8 * before + 0.2 * step.elapsed_s / tokens
                    yield event
            except Exception as error:
                if under_way is None:
                    raise AcceleratorError(_sentence(error)) from error
                yield Ended(under_way, Status.FAILED, StopReason.ERROR, _sentence(error))
            finally:
                Path(
                    path
                    # generator closed: the process stops before its next step, not at its next event
                ).touch()
                events.close()

    def granted(self, job: Job) -> Job:
        """Return the job with ``seconds`` set to the requested duration."""
        needed = self._needed_s(job.pair, [job.configs[run].max_new_tokens for run in job.order])
        return replace(job, seconds=min(needed, job.seconds))

    def reserves_s(self, pair: PairSpec, new_tokens: Sequence[int]) -> int:
        return self._needed_s(pair, new_tokens) + self.SET_UP_S

    def _needed_s(self, pair: PairSpec, new_tokens: Sequence[int]) -> int:
        tokens = sum(longest + self.WARM_UP for longest in new_tokens)
        needed = math.ceil(1.5 * self._pace_s.get(pair.key, self.PACE_S) * tokens)
        return min(max(self.MIN_S, needed), self.MAX_S)

    def _perform(self, job: Job, stop_path: str) -> Iterator[JobEvent]:
        """Runs in the forked process, which shares the file system."""
        yield from _perform(self._pool, job, Path(stop_path).exists)


@contextmanager
def _stop_file(stop: Stop) -> Iterator[str]:
    """Yield a path at which a file is created once ``stop`` is requested; watched by a separate
    thread."""
    over = threading.Event()
    with TemporaryDirectory(prefix="mars-stop-") as folder:
        path = Path(folder, "stop")

        def watch() -> None:
            while not over.wait(LOOK_S):
                if stop.requested():
                    path.touch()
                    return

        watcher = threading.Thread(target=watch, name="stop", daemon=True)
        watcher.start()
        try:
            yield str(path)
        finally:
            over.set()
            watcher.join()


def _sentence(error: Exception) -> str:
    """Return the message of an exception of ``spaces`` as plain text: it may contain HTML links."""
    message = re.sub(r"<[^<>]*>", "", str(getattr(error, "message", error))).strip().splitlines()
    reason = (message or [type(error).__name__])[0][:300].rstrip(".")
    spent = " Run the page yourself, or duplicate this Space, to go on." * ("quota" in reason)
    return f"The GPU is not available or was taken away: {reason}.{spent}"
