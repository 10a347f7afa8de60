"""How far a study is, in one line: tasks, results, rate of every worker, time to go. Knows no screen."""

from __future__ import annotations

import math
import time
from collections import deque

from evaluation.format import about
from storage import StudyProgress, WorkerProgress

WINDOW = 120  # looks at the count of results from which the pace is taken


class Pace:
    """The pace of this session: results a second over the last looks, whatever happened before a pause."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def line(self, progress: StudyProgress, lanes: int) -> str:
        """For people: ``312/1,800 tasks · 6,552 results · 8.1 results/s · about 27 min to go · 2 workers: 4.0, 4.1/s``."""
        self._seen.append((time.monotonic(), progress.results))
        pace = self.results_a_second
        parts = [f"{progress.done:,}/{progress.tasks:,} tasks", f"{progress.results:,} results"]
        if pace > 0:
            parts.append(f"{pace:.3g} results/s")
            parts.append(f"{about((progress.tasks * lanes - progress.results) / pace)} to go")
        active = [worker for worker in progress.workers if worker.claimed and worker.results > 1]
        rates = ", ".join(f"{rate(worker):.3g}" for worker in active)
        if active:
            parts.append(f"{len(active)} worker{'s' * (len(active) > 1)}" + (f": {rates}/s" if rates else ""))
        return " · ".join(parts)

    @property
    def results_a_second(self) -> float:
        """Results a second; nan before there are two looks."""
        if len(self._seen) < 2:
            return math.nan
        (start, before), (now, count) = self._seen[0], self._seen[-1]
        return (count - before) / (now - start) if now > start else math.nan


def rate(worker: WorkerProgress) -> float:
    """Results a second of one worker, from its first to its last; nan before there are two."""
    if worker.first_at is None or worker.last_at is None or worker.results < 2:
        return math.nan
    seconds = (worker.last_at - worker.first_at).total_seconds()
    return (worker.results - 1) / seconds if seconds > 0 else math.nan
