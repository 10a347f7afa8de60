"""A worker: claims a task, runs what is missing of its lanes, commits each as it ends, marks the task done, takes the next.

Any number of workers share a study through the store, on one machine or several. What ends with a worker, killed or not, is the lane under
way: its claim runs out (or is taken from a dead process of the same machine), and another worker goes on with the lanes that are missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from evaluation.scoring.metrics import scores
from evaluation.study.conversation import answer, config_of, converse
from evaluation.study.plan import Plan, Task
from evaluation.study.reckon import refused, relative_of, result_of
from evaluation.study.result import Result
from mars_core.jobs.comparison import execution_order, warm_up
from mars_core.session import Session
from mars_core.types import Status, Trace
from storage import Claim, ClaimLost, RunStore

log = logging.getLogger(__name__)
LEASE_S = 300.0  # how long a claim lasts without a sign of life
PAUSE_S = 1.0  # between two looks for a task while others hold what is left


class Stopped(Exception):
    """The worker was asked to end. What it had committed stays."""


@dataclass(slots=True)
class Worker:
    """One process on one pair of models. ``stopped`` is asked after every step, ``told`` called after every committed lane."""

    store: RunStore
    study_id: str
    plan: Plan
    session: Session
    name: str
    free_dead: Callable[[], int] = lambda: 0  # gives back the tasks of dead workers; how many
    stopped: Callable[[], bool] = lambda: False
    told: Callable[[], None] = lambda: None
    order: Callable[[int], list[int]] = execution_order
    lease_s: float = LEASE_S
    _beaten: float = field(default=0.0, init=False)

    def work(self) -> None:
        """Work until every task of the study is done, by whomever. Raises Stopped, and StorageError where the store fails."""
        warm = False
        while True:
            claim = self.store.claim_task(self.study_id, self.name, self.lease_s)
            if claim is None:
                if not self._wait():
                    return
                continue
            self._beaten = time.monotonic()
            if not warm:
                self._warm_up(self.plan.task(claim.task))
                warm = True
            try:
                self._task(claim)
            except ClaimLost as error:
                log.warning("%s", error)
            except BaseException:
                self.store.release_task(claim)
                raise

    def _wait(self) -> bool:
        """Whether tasks are left, held by others; waits a little, so that those of the dead come back."""
        progress = self.store.study_progress(self.study_id)
        if progress.done == progress.tasks:
            return False
        if not self.free_dead():
            self._breathe()
            time.sleep(PAUSE_S)
        return True

    def _warm_up(self, task: Task) -> None:
        """Every lane once: kernels, caches and recordings are made before anything is timed."""
        for lane in range(len(self.plan.lanes)):
            self._breathe()
            warm_up(self.session, config_of(self.plan, self.session, task, lane))

    def _task(self, claim: Claim) -> None:
        task = self.plan.task(claim.task)
        stored = self.store.task_results(self.study_id, claim.task)
        ran: dict[int, tuple[Trace, ...]] = {}
        for place, lane in enumerate(self.order(len(self.plan.lanes))):
            if lane not in stored:
                ran[lane], result = self._lane(claim, task, lane)
                self.store.save_result(claim, lane, ran[lane], result.as_dict(), order=place)
                self.told()
        if stored:
            ran = self._read(claim.task) | ran
        self.store.finish_task(claim, self._relatives(ran))

    def _lane(self, claim: Claim, task: Task, lane: int) -> tuple[tuple[Trace, ...], Result]:
        suite, item = self.plan.suites[task.suite], self.plan.item(task)

        def each_step() -> None:
            self._breathe()
            self._beat(claim)

        try:
            traces = converse(self.session, config_of(self.plan, self.session, task, lane), item.turns, each_step)
        except ValueError as error:  # the settings do not fit this prompt
            return (), refused(error)
        whole = traces[-1].status is Status.COMPLETED
        texts = [answer(trace) for trace in traces]
        found = scores(suite, item, texts, execute_code=self.plan.execute_code) if whole else {}
        return traces, result_of(traces, found)

    def _read(self, number: int) -> dict[int, tuple[Trace, ...]]:
        """The traces of all lanes as they were committed; a lane is left out whose runs somebody has deleted since."""
        found: dict[int, tuple[Trace, ...]] = {}
        for lane, result in self.store.task_results(self.study_id, number).items():
            traces = self.store.traces(result.run_ids)
            if len(traces) == len(result.run_ids):
                found[lane] = tuple(traces[run_id] for run_id in result.run_ids)
        return found

    def _relatives(self, ran: dict[int, tuple[Trace, ...]]) -> dict[int, dict[str, object]]:
        """Every lane that was completed, beside a baseline that was completed."""
        whole = {lane: traces for lane, traces in ran.items() if traces and traces[-1].status is Status.COMPLETED}
        none = None if self.plan.none is None else whole.get(self.plan.none)
        found = {}
        for lane, traces in whole.items():
            baseline = self.plan.baseline(lane)
            beside = traces if baseline is None else whole.get(baseline)
            if beside is not None:
                found[lane] = relative_of(traces, beside, none).as_dict()
        return found

    def _breathe(self) -> None:
        if self.stopped():
            raise Stopped

    def _beat(self, claim: Claim) -> None:
        """A sign of life in good time. Raises ClaimLost where another worker has taken over."""
        if time.monotonic() - self._beaten > self.lease_s / 4:
            self._beaten = time.monotonic()
            if not self.store.beat(claim, self.lease_s):
                raise ClaimLost(f"Task {claim.task} was taken over by another worker.")
