"""A worker: runs the missing lanes of tasks, commits each result as it comes and closes the tasks
that are done.

A worker that stops loses only what runs. Several may work on a study: what one has committed is
skipped, and the first result of a lane counts.
"""

from __future__ import annotations

import logging
import platform
import time
from collections import deque
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass, field

import psutil

from evaluation.study.events import LaneEnded, LaneProgress, LaneTraces, TaskEnded
from evaluation.study.runner import Runner
from mars_core.types import Status, Trace
from storage import ResultExists, RunStore, StorageError

log = logging.getLogger(__name__)
AT_WORK_S = 300.0  # the page takes a study for stopped after so long without a report of a worker


# Of a lane that ended once it is committed. None: no progress; the caller may stop
WorkerEvent = LaneProgress | LaneEnded | None


@dataclass(slots=True)
class Work:
    """A study in the store. Use it as a context manager, during which it counts as worked
    on."""

    store: RunStore
    study_id: str
    _renewed_at: float = field(default=0.0, init=False)

    def __enter__(self) -> Work:
        self.store.work_on(self.study_id, AT_WORK_S)
        self._renewed_at = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(StorageError):  # it counts as stopped after AT_WORK_S then
            self.store.work_on(self.study_id, 0)

    def traces(self, task: int) -> dict[int, tuple[Trace, ...]]:
        """Read those of the committed lanes; none for a lane whose runs have been deleted. A placebo
        that relaxed nothing has no runs of its own, and ends once more, without being saved."""
        stored = {
            lane: result
            for lane, result in self.store.task_results(self.study_id, task).items()
            if result.run_ids or result.data["status"] != Status.COMPLETED
        }
        run_ids = [run_id for result in stored.values() for run_id in result.run_ids]
        traces = self.store.traces(run_ids) if run_ids else {}
        runs = {lane: tuple(map(traces.get, result.run_ids)) for lane, result in stored.items()}
        return {lane: tuple(filter(None, each)) if all(each) else () for lane, each in runs.items()}

    def run(
        self, runner: Runner, tasks: deque[int], others: LaneTraces | None = None
    ) -> Generator[WorkerEvent, None, None]:
        """Run tasks in this thread until none is left; several threads may share them. ``others``:
        lanes that count as done, without traces; as these may follow, no task is closed. Closing it
        drops what runs. Raises Stopped and StorageError."""
        name = process_name()
        while chunk := taken(tasks, runner.chunk):
            left = {task: {**(others or {}), **self.traces(task)} for task in chunk}
            with closing(runner.run(left)) as events:
                for event in events:
                    yield self.commit(event, name, closes=not others) if event else None

    def go_on(self) -> None:
        """Note that the study is worked on; to be called now and then."""
        if time.monotonic() - self._renewed_at > AT_WORK_S / 4:
            self._renewed_at = time.monotonic()
            self.store.work_on(self.study_id, AT_WORK_S)

    def commit(
        self, event: LaneProgress | LaneEnded | TaskEnded, worker: str, *, closes: bool = True
    ) -> WorkerEvent:
        """``closes``: whether a task that ended is done."""
        self.go_on()
        if isinstance(event, LaneProgress):
            return event
        if isinstance(event, TaskEnded):
            self.store.finish_task(self.study_id, event.task, event.relatives, done=closes)
            return None
        task, lane, order, traces, result = event
        data = result.as_dict()
        try:
            self.store.save_result(
                self.study_id, task, lane, traces, data, order=order, worker=worker
            )
        except ResultExists as error:
            log.warning("%s", error)
            return None
        return event


def taken(tasks: deque[int], count: int) -> list[int]:
    """Take the next tasks, at most so many; from any thread."""
    chunk: list[int] = []
    while len(chunk) < count:
        try:
            chunk.append(tasks.popleft())
        except IndexError:
            break
    return chunk


def process_name() -> str:
    """``machine:process:start``: the start distinguishes a process from a later one with the same
    number."""
    process = psutil.Process()
    return f"{platform.node()}:{process.pid}:{process.create_time():.0f}"
