"""Runs a study on the page: a worker in the queue, and how far it has come. Plain generators."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from evaluation.commands import spec_of_models
from evaluation.format import about, count
from evaluation.study.check import (
    check,
    check_models,
    check_sampler,
    every_prompt,
    every_setting,
)
from evaluation.study.engine import Accelerated
from evaluation.study.plan import Models, Plan, read_plan
from evaluation.study.runner import LaneProgress, Runner, Stopped
from evaluation.study.worker import Event, LaneSaved, Work, Worker
from mars_core.models import PairSpec
from mars_core.types import Status, StopReason
from storage import RunStore, StorageError
from ui.jobs.admission import RUNNING, check_configs, job_errors
from ui.jobs.driver import with_models
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.tabs.study.form import StudyForm, admitted, check_size

if TYPE_CHECKING:
    from mars_core.session import Session

WARMING = "Warming up: a few tokens that do not count …"
TIME_IS_UP = "The time for one job is up"


class StudyFrame(NamedTuple):
    """How far a study has come. ``worker``: once there is one; ``saved``: the result that was just
    stored; ``status``: of the last one only, ``why``: in a sentence."""

    strip: Strip
    worker: Worker | None = None
    saved: LaneSaved | None = None
    status: Status | None = None
    why: str = ""


def started(services: Services, visitor: str, form: StudyForm) -> Iterator[StudyFrame]:
    """Runs a new study. Raises JobError."""
    with job_errors(services):
        spec, plan = admitted(services, form)
    yield from study_runs(services, visitor, spec, plan)


def resumed(services: Services, visitor: str, study_id: str) -> Iterator[StudyFrame]:
    """Goes on with a stored study of the visitor. Raises JobError."""
    with job_errors(services):
        if not resumable(services.store, study_id):
            raise ValueError(
                "This study cannot be resumed here: it is done, running, not yours, executes code, or gives advice."
            )
        plan = read_plan(services.store.study(study_id).plan)
        check_sampler(plan, services.store, study_id)
        left = max(1, plan.runs - services.store.study_progress(study_id).results)
        check_size(services, plan, left)
        spec = spec_of_models(plan.models, services.catalog)
    yield from study_runs(services, visitor, spec, plan, study=study_id, runs=left)


def resumable(store: RunStore, study_id: str, share: str = "") -> bool:
    """Whether whoever reads ``store`` can go on with a study from the page: one without a worker,
    without code to execute, of models here."""
    with suppress(ValueError, StorageError):
        progress, study = store.study_progress(study_id), store.study(study_id)
        elsewhere = any(study.plan.get(name) for name in ("execute_code", "served", "advice"))
        return not (share or progress.working or study.done == study.tasks or elsewhere)
    return False


def run_label(plan: Plan, event: LaneProgress) -> str:
    lane = plan.lanes[event.lane]
    return ", ".join(
        filter(None, (lane.name, lane.drafts, f"T = {plan.task(event.task).temperature:g}"))
    )


def study_runs(
    services: Services,
    visitor: str,
    spec: PairSpec,
    plan: Plan,
    *,
    study: str = "",
    runs: int = 0,
) -> Generator[StudyFrame, None, None]:
    """Runs a new study; or goes on with ``study``, of whose plan ``runs`` are left. Raises
    JobError."""
    runs, stop = runs or plan.runs, services.stops.of(visitor)

    def work(session: Session) -> Generator[StudyFrame, None, None]:
        with job_errors(services):
            checked = _checked(services, session, spec, plan, new=not study)
            study_id = study or services.store.new_study(
                checked.name, checked.as_dict(), checked.tasks
            )
            engine = Accelerated(
                spec, services.accelerator, stop, services.limits.seconds or math.inf
            )
            runner = Runner(checked, session, engine, order=services.order)
            tasks = deque(services.store.open_tasks(study_id))
            worker = Worker(Work(services.store, study_id), runner, tasks)
        with job_errors(services, RUNNING), worker.work, closing(worker.events()) as events:
            yield StudyFrame(message_strip(WARMING, "running"), worker)
            yield from _follow(services, worker, events, runs, stop.requested)

    jobs = with_models(services, visitor, spec, work, runs=runs, new_tokens=plan.max_new_tokens)
    with closing(jobs) as events:
        for event in events:
            yield (
                event
                if isinstance(event, StudyFrame)
                else StudyFrame(message_strip(event.message, "running"))
            )


def _checked(
    services: Services, session: Session, spec: PairSpec, plan: Plan, *, new: bool
) -> Plan:
    """The plan, all of whose runs these models can do; a new one has their revisions. Raises
    ValueError."""
    pair = session.pair
    if new:
        plan = replace(plan, models=replace(Models.of(pair), key=spec.key))
    check_models(plan, pair)
    check(plan, session)
    for config in chain(every_setting(plan, session), every_prompt(plan, session)):
        check_configs(services, session, (config,))
    return plan


def _follow(
    services: Services,
    worker: Worker,
    events: Iterator[Event],
    runs: int,
    stopped: Callable[[], bool],
) -> Iterator[StudyFrame]:
    """A line for every report of the worker."""
    started, done, plan = time.monotonic(), 0, worker.plan
    total = plan.runs
    status, why = Status.COMPLETED, ""

    def line(event: LaneProgress) -> Strip:
        """Others are expected to go on at the pace of those that ended."""
        number, task = total - runs + done, plan.task(event.task)
        text = f"Run {count(min(number + 1, total))} of {count(total)}: {run_label(plan, event)}, prompt {count(task.item + 1)} of "
        text += count(len(plan.suites[task.suite].items))
        left = (
            f"{about((time.monotonic() - started) / done * (runs - done))} to go"
            if 0 < done <= runs
            else ""
        )
        part = min(1.0, event.tokens / plan.max_new_tokens)
        return message_strip(text, "running", side=left, progress=min(1.0, (number + part) / total))

    try:
        for event in events:
            if isinstance(event, LaneProgress):
                yield StudyFrame(line(event), worker)
            elif isinstance(event, LaneSaved):
                for trace in event.traces:
                    services.observe(trace)
                done += 1
                yield StudyFrame(line(LaneProgress(event.task, event.lane, 0)), worker, event)
            elif stopped():  # others have the remaining tasks
                status = Status.CANCELLED
                break
    except Stopped as end:
        status, why = Status.CANCELLED, TIME_IS_UP if end.reason is StopReason.DEADLINE else ""
    yield StudyFrame(message_strip("", "running"), worker, None, status, why)
