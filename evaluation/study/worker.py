"""A worker: claims a task, runs its missing lanes, commits each result, marks the task done, and
continues with the next.

Any number of workers share a study through the store, on one machine or several. A worker that
stops loses only its current lane: its claim expires (or is released, for a dead process of the same
machine), and another worker runs the missing lanes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from evaluation.scoring.metrics import scores
from evaluation.study.engine import LaneEngine, config_of, converse
from evaluation.study.plan import Plan
from evaluation.study.result import LaneResult, answer, refused, relative_of, result_of
from mars_core.jobs import execution_order
from mars_core.types import Status, StopReason, Trace
from storage import Claim, ClaimLost, RunStore, StoredResult

if TYPE_CHECKING:
    from mars_core.session import Session

log = logging.getLogger(__name__)
LEASE_S = 300.0  # lifetime of a claim without a heartbeat
PAUSE_S = 1.0  # between two attempts to claim while others have the remaining tasks
Traces = Mapping[int, tuple[Trace, ...]]  # lane → its turns


class Stopped(Exception):
    """A run was cancelled, by request or time limit. It is not committed; all earlier results
    are."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class LaneProgress(NamedTuple):
    """A lane of a task is running. ``tokens``: of all its turns so far."""

    task: int
    lane: int
    tokens: int


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
    plan: Plan
    session: Session | None  # None for a study on servers
    engine: LaneEngine
    name: str
    free_dead: Callable[[], int] = lambda: (
        0
    )  # releases the tasks of dead workers; returns their number
    order: Callable[[int], list[int]] = execution_order
    lease_s: float = LEASE_S
    below: int | None = None  # works only on tasks with a lower number
    _renewed_at: float = field(default=0.0, init=False)

    def events(self) -> Generator[Event, None, None]:
        """Works until every task of the study (``below``) is done by any worker. Closing it
        releases its task and drops the current lane.

        Raises Stopped and StorageError.
        """
        warm = False
        while True:
            claim = self.store.claim_task(self.study_id, self.name, self.lease_s, self.below)
            if claim is None:
                if not self._left():
                    return
                yield None
                continue
            self._renewed_at = time.monotonic()
            try:
                # Kernels, caches and CUDA graphs exist before timed runs.
                for lane in range(0 if warm else len(self.plan.lanes)):
                    self.engine.warm_up(
                        config_of(self.plan, self.session, self.plan.task(claim.task), lane)
                    )
                    yield None
                warm = True
                yield from self._task(claim)
            except ClaimLost as error:
                log.warning("%s", error)
            except BaseException:
                self.store.release_task(claim)
                raise

    def _left(self) -> bool:
        """Whether other workers have unfinished tasks; waits for PAUSE_S and releases those of dead
        workers."""
        progress = self.store.study_progress(self.study_id)
        if progress.done >= (self.below or progress.tasks):
            return False
        if not self.free_dead():
            time.sleep(PAUSE_S)
        return True

    def _task(self, claim: Claim) -> Generator[Event, None, None]:
        stored = self.store.task_results(self.study_id, claim.task)
        ran, relatives = self._read(stored), dict[int, dict[str, object]]()
        lanes = sorted(  # placebos after what they imitate
            self.order(len(self.plan.lanes)), key=lambda lane: bool(self.plan.lanes[lane].imitates)
        )
        for order, lane in enumerate(lanes):
            if lane in stored:
                continue
            traces, result = yield from self._lane(claim, lane, ran)
            ran[lane] = traces
            added = self._relatives(ran, relatives, last=False)
            data = result.as_dict()
            self.store.save_result(claim, lane, traces, data, order=order, relatives=added)
            relatives |= added
            yield LaneSaved(claim.task, lane, result, traces)
        self.store.finish_task(claim, self._relatives(ran, relatives, last=True))

    def _lane(
        self, claim: Claim, lane: int, ran: Traces
    ) -> Generator[Event, None, tuple[tuple[Trace, ...], LaneResult]]:
        task = self.plan.task(claim.task)
        suite, item = self.plan.suites[task.suite], self.plan.item(task)
        try:
            imitated = self._imitated(lane, ran)
            config = config_of(self.plan, self.session, task, lane, imitated)
            with closing(converse(self.engine, config, item.turns)) as written:
                traces = yield from self._report(claim, lane, written)
        except ValueError as error:  # the settings are invalid for this prompt
            return (), refused(error)
        if not traces or traces[-1].status is Status.CANCELLED:
            raise Stopped(traces[-1].stop_reason if traces else StopReason.CANCELLED)
        completed = traces[-1].status is Status.COMPLETED
        texts = [answer(trace) for trace in traces]
        scored = (
            scores(suite, item, texts, execute_code=self.plan.execute_code) if completed else {}
        )
        return traces, result_of(traces, scored)

    def _imitated(self, lane: int, ran: Traces) -> tuple[Trace, ...] | None:
        """The runs that a lane imitates. Raises ValueError where there are none to imitate."""
        if self.plan.lanes[lane].imitates is None:
            return None
        number = self.plan.imitated(lane)
        traces = ran.get(number, ())
        if not traces or traces[-1].status is not Status.COMPLETED:
            name = self.plan.lanes[number].name
            raise ValueError(f"{name} has no completed run here whose share could be imitated.")
        return traces

    def _report(
        self, claim: Claim, lane: int, written: Generator[int, None, tuple[Trace, ...]]
    ) -> Generator[Event, None, tuple[Trace, ...]]:
        """The traces returned by ``written``; renews the claim where that is due. Raises ClaimLost
        if another worker has taken it."""
        tokens = 0
        while True:
            try:
                tokens += next(written)
            except StopIteration as end:
                traces: tuple[Trace, ...] = end.value
                return traces
            if time.monotonic() - self._renewed_at > self.lease_s / 4:
                self._renewed_at = time.monotonic()
                if not self.store.beat(claim, self.lease_s):
                    raise ClaimLost(f"Task {claim.task} was taken over by another worker.")
            yield LaneProgress(claim.task, lane, tokens)

    def _read(self, stored: Mapping[int, StoredResult]) -> dict[int, tuple[Trace, ...]]:
        """The traces of committed lanes, without lanes whose runs have been deleted."""
        traces = self.store.traces(
            [run_id for result in stored.values() for run_id in result.run_ids]
        )
        runs = {lane: tuple(map(traces.get, result.run_ids)) for lane, result in stored.items()}
        return {
            lane: tuple(filter(None, stored_traces))
            for lane, stored_traces in runs.items()
            if all(stored_traces)
        }

    def _relatives(
        self, ran: Traces, known: Mapping[int, object], *, last: bool
    ) -> dict[int, dict[str, object]]:
        """Relative results of every completed lane that is not ``known`` and has a completed
        baseline. Unless ``last``, the lane without drafts must be completed too."""
        completed = {
            lane: traces
            for lane, traces in ran.items()
            if traces and traces[-1].status is Status.COMPLETED
        }
        none = None if self.plan.none is None else completed.get(self.plan.none)
        if self.plan.none is not None and none is None and not last:
            return {}
        relatives = {}
        for lane in completed.keys() - known.keys():
            baseline = self.plan.baseline(lane)
            beside = completed[lane] if baseline is None else completed.get(baseline)
            if beside is not None:
                relatives[lane] = relative_of(completed[lane], beside, none).as_dict()
        return relatives
