"""Where jobs are computed: in a thread of this process, or on ZeroGPU in a process that is forked for it.

Only Jobs and events cross. Knows no page and no store, and neither gradio nor ``spaces``, whose decorator it is given.
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

from mars_core.jobs import AcceleratorError, Ended, Event, Job, Stop, Wrote
from mars_core.models import ModelPool, PairSpec
from mars_core.types import Status, StopReason

LOOK_S = 0.05  # between two looks whether to stop, on behalf of another process


class Local:
    """Computes in one thread for all: a second thread that computed on a CPU would bring workers of its own, and with more of them
    than cores OpenMP stops waiting actively, which more than halves the speed of small models.

    The thread goes on to the next event and rests until it is asked for: an interval of steps costs two changes of thread.
    """

    loads = True

    def __init__(self, pool: ModelPool, engine: Executor) -> None:
        self._pool, self._engine = pool, engine

    def run(self, job: Job, stop: Stop) -> Generator[Event, None, None]:
        events = self._engine.submit(_perform, self._pool, job, stop.requested).result()
        try:
            while (event := self._engine.submit(next, events, None).result()) is not None:
                yield event
        finally:
            with suppress(RuntimeError):  # the engine was shut down
                self._engine.submit(events.close).result()


def _perform(pool: ModelPool, job: Job, stopped: Callable[[], bool]) -> Generator[Event, None, None]:
    from mars_core.jobs.perform import perform  # here: the page starts without all that models need

    return perform(pool, job, stopped)


class ZeroGpu:
    """Computes in a process that ``gpu`` (the decorator ``spaces.GPU``) forks from this one for a call, a whole job each.

    Built before the page is launched, in the main thread, where CUDA is emulated: all ``pairs`` are placed then, and a pair that is
    not cannot be run. The call gets a job and a path, and gives events; the file of that path means stop.

    The time that a call asks for is checked against the visitor's quota before it begins, and the process is killed when it is over: so
    it is estimated from the job, and the job's own deadline comes first. Tokens asked for, warm-ups included, times the mean pace of the
    pair's runs so far (``PACE_S`` before there is one) and half as much again; at most ``job.seconds`` and ``MOST_S``. ``SET_UP_S``
    is added, in which weights go to the device.
    """

    loads = False
    PACE_S = 0.05  # a token of an 8B target with a draft model, generously
    SET_UP_S = 15
    LEAST_S = 10
    MOST_S = 120
    WARM_UP = 32  # tokens and prefills of a run that do not count, as tokens

    def __init__(self, pool: ModelPool, pairs: Sequence[PairSpec], gpu: Callable[..., Any]) -> None:
        self._pool = pool
        self._pace_s: dict[str, float] = {}  # key of a pair → seconds a token
        self._pairs = tuple(pairs)
        for pair in pairs:
            pool.get(pair)
        self._call = gpu(duration=lambda job, _path: math.ceil(job.seconds) + self.SET_UP_S)(self._perform)

    def run(self, job: Job, stop: Stop) -> Generator[Event, None, None]:
        """As ``Accelerator.run``. A process that dies ends the run under way as failed, and the job."""
        if job.pair not in self._pairs:
            raise AcceleratorError(
                f"The pair {job.pair.title!r} was not placed on the GPU when this page started; choose another."
            )
        under_way: int | None = None
        with _heard(stop) as path:
            events = self._call(self.granted(job), path)
            try:
                for event in events:
                    under_way = None if isinstance(event, Ended) else event.run
                    self._learn(job, event)
                    yield event
            except Exception as error:
                if under_way is None:
                    raise AcceleratorError(_sentence(error)) from error
                yield Ended(under_way, Status.FAILED, StopReason.ERROR, _sentence(error))
            finally:
                Path(path).touch()  # closed: the process ends before its next step, not at its next event
                events.close()

    def granted(self, job: Job) -> Job:
        """The job with the seconds that are asked for it."""
        pace = self._pace_s.get(job.pair.key, self.PACE_S)
        tokens = sum(job.configs[run].max_new_tokens + self.WARM_UP for run in job.order)
        needed = max(self.LEAST_S, math.ceil(1.5 * pace * tokens))
        return replace(job, seconds=min(needed, job.seconds, self.MOST_S))

    def _perform(self, job: Job, stop_path: str) -> Iterator[Event]:
        """In the other process, which sees the file though it was forked before."""
        yield from _perform(self._pool, job, Path(stop_path).exists)

    def _learn(self, job: Job, event: Event) -> None:
        """The pace of a run so far, into the mean."""
        if isinstance(event, Wrote) and event.last and event.steps:
            step = event.steps[-1]
            tokens = step.emitted[-1].position + 1 - len(job.configs[event.run].prefix)
            before = self._pace_s.get(job.pair.key, step.elapsed_s / tokens)
            self._pace_s[job.pair.key] = 0.8 * before + 0.2 * step.elapsed_s / tokens


@contextmanager
def _heard(stop: Stop) -> Iterator[str]:
    """A path that comes to be a file once ``stop`` is requested, whatever this thread waits for meanwhile."""
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
    """What ``spaces`` raised, as text: its messages hold links."""
    message = re.sub(r"<[^>]*>", "", str(getattr(error, "message", error))).strip().splitlines()
    reason = (message or [type(error).__name__])[0][:300].rstrip(".")
    return f"The GPU is not to be had or was taken away: {reason}."
