"""A worker: claims tasks, runs their missing lanes, commits each result, marks the tasks done, and
continues with the next.

Any number of workers share a study through the store, on one machine or several. A worker that
stops loses only what runs: its claims expire (or are released, for a dead process of the same
machine), and another worker runs the missing lanes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluation.study.plan import Plan
from evaluation.study.result import LaneResult
from evaluation.study.runner import LaneEnded, LaneProgress, Runner, TaskEnded
from mars_core.types import Trace
from storage import Claim, ClaimLost, RunStore, StoredResult

log = logging.getLogger(__name__)
LEASE_S = 300.0  # lifetime of a claim without a heartbeat
PAUSE_S = 1.0  # between two attempts to claim while others have the remaining tasks


class LaneSaved(NamedTuple):
    """A lane of a task was committed."""

    task: int
    lane: int
    result: LaneResult
    traces: tuple[Trace, ...]


Event = LaneProgress | LaneSaved | None  # None: no progress; the caller may stop


@dataclass(slots=True)
class Worker:
    """One process on one pair of models, or one thread that sends requests to servers."""

    store: RunStore
    study_id: str
    runner: Runner
    name: str
    free_dead: Callable[[], int] = lambda: (
        0
    )  # releases the tasks of dead workers; returns their number
    lease_s: float = LEASE_S
    below: int | None = None  # works only on tasks with a lower number
    _claims: dict[int, Claim] = field(default_factory=dict, init=False)
    _renewed_at: float = field(default=0.0, init=False)

    @property
    def plan(self) -> Plan:
        return self.runner.plan

    def events(self) -> Generator[Event, None, None]:
        """Works until every task of the study (``below``) is done by any worker. Closing it
        releases its tasks and drops what runs.

        Raises Stopped and StorageError.
        """
        try:
            while True:
                self._claim()
                if self._claims:
                    tasks = {task: self._traces(task) for task in self._claims}
                    with closing(self.runner.run(tasks)) as events:
                        for event in events:
                            yield self._commit(event) if event else None
                elif self._left():
                    yield None
                else:
                    return
        finally:
            for claim in self._claims.values():
                self.store.release_task(claim)

    def _claim(self) -> None:
        self._claims, self._renewed_at = {}, time.monotonic()
        while len(self._claims) < self.runner.chunk:
            claim = self.store.claim_task(self.study_id, self.name, self.lease_s, self.below)
            if claim is None:
                return
            self._claims[claim.task] = claim

    def _left(self) -> bool:
        """Whether other workers have unfinished tasks; waits for PAUSE_S and releases those of dead
        workers."""
        progress = self.store.study_progress(self.study_id)
        if progress.done >= (self.below or progress.tasks):
            return False
        if not self.free_dead():
            time.sleep(PAUSE_S)
        return True

    def _commit(self, event: LaneProgress | LaneEnded | TaskEnded) -> Event:
        """Saves what has ended, and renews the claims where that is due. What belongs to another
        worker by now is dropped."""
        try:
            if time.monotonic() - self._renewed_at > self.lease_s / 4:
                self._renewed_at = time.monotonic()
                for task, claim in list(self._claims.items()):
                    if not self.store.beat(claim, self.lease_s):
                        del self._claims[task]
            if event.task not in self._claims:
                return None
            if isinstance(event, LaneProgress):
                return event
            claim = self._claims[event.task]
            if isinstance(event, TaskEnded):
                self.store.finish_task(claim, event.relatives)
                del self._claims[event.task]
                return None
            task, lane, order, traces, result, relatives = event
            data = result.as_dict()
            self.store.save_result(claim, lane, traces, data, order=order, relatives=relatives)
            return LaneSaved(task, lane, result, traces)
        except ClaimLost as error:
            del self._claims[event.task]
            log.warning("%s", error)
            return None

    def _traces(self, task: int) -> dict[int, tuple[Trace, ...]]:
        """The traces of committed lanes; none for a lane whose runs have been deleted."""
        stored: Mapping[int, StoredResult] = self.store.task_results(self.study_id, task)
        traces = self.store.traces(
            [run_id for result in stored.values() for run_id in result.run_ids]
        )
        runs = {lane: tuple(map(traces.get, result.run_ids)) for lane, result in stored.items()}
        return {lane: tuple(filter(None, each)) if all(each) else () for lane, each in runs.items()}
