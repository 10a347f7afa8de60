"""Tasks that are given to processes: whatever is lost runs again, and nothing is there twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace

import pytest

from evaluation.plan.plan import Plan
from evaluation.study.dispatch import CallReport, dispatch
from evaluation.study.engine import InProcess
from evaluation.study.events import LaneEnded, LaneProgress, LaneTraces, RunnerEvent
from evaluation.study.runner import Runner
from evaluation.study.worker import Work
from mars_core.session import Session
from storage import RunStore
from tests.unit.evaluation.study.working import check_complete, new_study, small_plan

Call = Generator[RunnerEvent, None, None]


class Fragile:
    """Three processes in this thread, with two calls at most each. ``lost``: before an event.
    ``ended``: the task and lane of every result that one of them reported."""

    def __init__(self, plan: Plan, session: Session, lost: Callable[[], bool]) -> None:
        self.new = lambda: Runner(plan, session, InProcess(session), plan.batch)
        self.calls: dict[str, dict[int, Call]] = {name: {} for name in "abc"}
        self.lost, self.most, self.ended = lost, 0, list[tuple[int, int]]()

    def room(self) -> int:
        return sum(2 - len(calls) for calls in self.calls.values())

    def start(self, call: int, tasks: Mapping[int, LaneTraces]) -> None:
        calls = min(self.calls.values(), key=len)
        calls[call] = self.new().run(tasks)
        self.most = max(self.most, sum(map(len, self.calls.values())))

    def reports(self) -> Iterator[CallReport]:
        for name, calls in self.calls.items():
            for call, events in list(calls.items())[:1]:  # a process does one after the other
                if self.lost():
                    yield from [CallReport(each, name, None, "gone") for each in calls]
                    self.calls[name] = {}
                    continue
                event = next((one for one in events if one and not _progress(one)), None)
                if event is None:
                    del calls[call]
                if isinstance(event, LaneEnded):
                    self.ended.append((event.task, event.lane))
                assert not isinstance(event, LaneProgress)
                yield CallReport(call, name, event)


def _progress(event: RunnerEvent) -> bool:
    return isinstance(event, LaneProgress)


@pytest.mark.parametrize("batch", [1, 2])
def test_processes_that_are_lost_lose_nothing_and_leave_nothing_twice(
    store: RunStore, session: Session, batch: int
) -> None:
    plan = replace(small_plan(session, max_new_tokens=4, repeats=2), batch=batch)
    study = new_study(store, plan)
    left = iter(random.Random(3).choices((True, False), (1, 5), k=12))
    processes = Fragile(plan, session, lambda: next(left, False))
    with Work(store, study) as work:
        events = list(dispatch(work, processes, store.open_tasks(study), batch))
    saved = [(event.task, event.lane) for event in events if isinstance(event, LaneEnded)]
    assert len(set(saved)) == plan.runs and processes.most > 1
    assert processes.ended == saved  # nothing that was saved is computed again
    check_complete(store, study, plan)
    assert not store.study_progress(study).working


def test_a_task_that_ends_its_process_every_time_ends_the_study(
    store: RunStore, session: Session
) -> None:
    plan = small_plan(session)
    study = new_study(store, plan)
    processes = Fragile(plan, session, lambda: True)
    with pytest.raises(ChildProcessError, match=r"Task \d was lost with its process 3 times: gone"):
        list(dispatch(Work(store, study), processes, store.open_tasks(study), 1))
