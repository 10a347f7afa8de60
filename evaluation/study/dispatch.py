"""Gives the tasks of a study to processes that may be lost, and their results in the order in which
they come. It knows neither Ray nor models."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping
from typing import NamedTuple, Protocol

from evaluation.study.events import LaneEnded, LaneTraces, TaskEnded
from evaluation.study.worker import Work, WorkerEvent, taken

LOSSES = 3  # of one task with its process, after which a study stops


class CallReport(NamedTuple):
    """What a call says. ``event``: None where it has ended, with all its tasks or, where its
    process was ``lost``, with some."""

    call: int
    worker: str
    event: LaneEnded | TaskEnded | None
    lost: str = ""


class Processes(Protocol):
    """Processes with the models, which run calls: some tasks each."""

    def room(self) -> int:
        """Return how many more calls they take now."""
        ...

    def start(self, call: int, tasks: Mapping[int, LaneTraces]) -> None: ...

    def reports(self) -> Iterable[CallReport]:
        """Return those that there are, after a second at most."""
        ...


def dispatch(
    work: Work, processes: Processes, tasks: Iterable[int], chunk: int
) -> Generator[WorkerEvent, None, None]:
    """Runs the tasks, ``chunk`` a call, and commits their results. Tasks of a process that is lost
    run again without what has been committed.

    Raises StorageError, and ChildProcessError for a task with which LOSSES processes were lost.
    """
    left, calls, number = deque(tasks), dict[int, set[int]](), 0
    losses: Counter[int] = Counter()
    while left or calls:
        for _ in range(processes.room()):
            if some := taken(left, chunk):
                number += 1
                calls[number] = set(some)
                processes.start(number, {task: work.traces(task) for task in some})
        work.go_on()
        yield None
        for report in processes.reports():
            if report.event:
                yield work.commit(report.event, report.worker)
                if isinstance(report.event, TaskEnded):
                    calls[report.call].discard(report.event.task)
                continue
            again = sorted(calls.pop(report.call))
            left.extendleft(reversed(again))
            if report.lost:
                losses.update(again)
                if again and losses[again[0]] >= LOSSES:
                    raise ChildProcessError(
                        f"Task {again[0]} was lost with its process {LOSSES} times: {report.lost}"
                    )
