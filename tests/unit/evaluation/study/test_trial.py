"""``--batch auto``: the size of batches that wrote the most tokens a second in the study itself."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import islice

import pytest

from evaluation.plan.plan import Plan
from evaluation.report.measure import measure
from evaluation.study.engine import InProcess
from evaluation.study.events import LaneEnded
from evaluation.study.launch import Events, follow
from evaluation.study.result import LaneResult, read_result
from evaluation.study.runner import Runner
from evaluation.study.trial import in_trials, throughput, trials
from evaluation.study.worker import Work
from mars_core.session import Session
from mars_core.types import Status
from storage import RunStore
from tests.unit.evaluation.study.working import (
    MARS,
    STRICT,
    check_complete,
    new_study,
    small_plan,
)


def auto_plan(session: Session) -> Plan:
    """15 tasks."""
    lanes = (STRICT, MARS)
    return small_plan(session, repeats=5, batch=5, auto=True, lanes=lanes, max_new_tokens=4)


@pytest.mark.parametrize(
    ("rates", "used"), [({1: 30.0, 4: 70.0, 5: 60.0}, 4), ({1: 30.0, 4: 20.0, 5: 10.0}, 1)]
)
def test_the_fastest_measured_size_is_used_never_one_slower_than_single_runs(
    store: RunStore,
    session: Session,
    rates: dict[int, float],
    used: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = auto_plan(session)
    study = new_study(store, plan)
    monkeypatch.setattr(
        "evaluation.study.trial.throughput", lambda results: len([*results]) and rates
    )
    ran = []  # size, and whether a batch is full to the end

    class Noted(Work):
        def run(self, runner: Runner, tasks: deque[int], *_: object) -> Events:
            ran.append((runner.batch, runner.filled))
            return Work.run(self, runner, tasks)

    work, runner = Noted(store, study), Runner(plan, session, InProcess(session))
    (events,) = next(in_trials(work, runner))
    assert len([*islice((each for each in events if isinstance(each, LaneEnded)), 2)]) == 2
    events.close()  # it is stopped in a measurement, and goes on
    assert not follow(work, plan, in_trials(work, runner), quiet=True)
    check_complete(store, study, plan)
    assert ran == [*[(1, True)] * 2, (4, True), (5, True), (used, False)]
    sizes = {task: size for size, tasks in trials(plan) for task in tasks}
    assert [*map([*sizes.values()].count, (1, 4, 5))] == [4, 4, 5]
    for row in store.results(study):
        assert read_result(row.data).batch == sizes.get(row.task, used)
    numbers = ", ".join(f"{rate:.0f} in batches of {size}" for size, rate in rates.items())
    line = f"Tokens/s: {numbers}. 2 tasks run in batches of {used}.\n"
    assert capsys.readouterr().err == line
    rows = [row for row in measure(store, study).loads if row.lane == plan.lanes[1]]
    assert [row.answers for row in rows] == [4 + 2 * (used == 1), 4 + 2 * (used == 4), 5]


def test_throughput_is_that_of_completed_runs_by_size() -> None:
    done, failed = Status.COMPLETED, Status.FAILED
    results = [
        LaneResult(done, new_tokens=6, wall_s=1.0),
        LaneResult(done, new_tokens=6, wall_s=3.0),
        LaneResult(done, new_tokens=6, batch=4, wall_s=float("nan"), batch_s=2.0),
        LaneResult(failed, new_tokens=6, batch=4, wall_s=float("nan"), batch_s=9.0),
        LaneResult(failed, batch=8),
        LaneResult(done, new_tokens=0, wall_s=0.0, batch=16, batch_s=0.0),
    ]
    assert throughput(results) == {1: 3.0, 4: 3.0}


def test_sizes_that_the_study_cannot_fill_are_not_measured(session: Session) -> None:
    plan = auto_plan(session)
    alone = replace(plan, alone=3)
    for each, sizes in ((plan, [1, 4, 5]), (alone, [1, 4]), (replace(plan, repeats=1), [])):
        assert [size for size, _ in trials(each)] == sizes
    measured = [task for _, tasks in trials(alone) for task in tasks]
    assert len({*measured, *alone.alone_tasks}) == len(measured) + 3
