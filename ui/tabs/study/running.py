"""Runs a study or a sweep on the page: a worker in the queue, and how far it has come. A plain
generator."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from evaluation.format import about, count
from evaluation.study.check import check, check_models, every_prompt, every_setting
from evaluation.study.engine import Accelerated
from evaluation.study.plan import Models, Plan
from evaluation.study.processes import free_dead, own_name
from evaluation.study.sweep import runs_planned
from evaluation.study.worker import Event, Saved, Stopped, Worker, Writing
from mars_core.models import PairSpec
from mars_core.types import Status, StopReason
from ui.jobs.admission import RUNNING, check_configs, job_errors
from ui.jobs.driver import with_models
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip

if TYPE_CHECKING:
    from mars_core.session import Session

WARMING = "Warming up: a few tokens that do not count …"
TIME_IS_UP = "The time for one job is up"
Name = Callable[[Plan, Writing], str]  # of a run, for the line


class Progress(NamedTuple):
    """How far a study has come. ``worker``: once there is one; ``saved``: the result that was just
    stored; ``status``: of the last one only, ``why``: in a sentence."""

    strip: Strip
    worker: Worker | None = None
    saved: Saved | None = None
    status: Status | None = None
    why: str = ""


def study_runs(
    services: Services,
    visitor: str,
    spec: PairSpec,
    plan: Plan,
    name: Name,
    *,
    study: str = "",
    runs: int = 0,
) -> Generator[Progress, None, None]:
    """Runs a new study; or goes on with ``study``, of whose plan ``runs`` are left. Raises
    JobError."""
    runs, stop = runs or runs_planned(plan), services.stops.of(visitor)

    def work(session: Session) -> Generator[Progress, None, None]:
        with job_errors(services):
            checked = _checked(services, session, spec, plan, new=not study)
            study_id = study or services.store.new_study(
                checked.name, checked.as_dict(), checked.tasks
            )
            engine = Accelerated(
                spec, services.accelerator, stop, services.limits.seconds or math.inf
            )
            free = partial(free_dead, services.store, study_id)
            worker = Worker(
                services.store,
                study_id,
                checked,
                session,
                engine,
                own_name(),
                free_dead=free,
                order=services.order,
            )
        yield Progress(message_strip(WARMING, "running"), worker)
        with job_errors(services, RUNNING), closing(worker.events()) as events:
            yield from _follow(services, worker, events, name, runs, stop.requested)

    jobs = with_models(services, visitor, spec, work, runs=runs, new_tokens=plan.max_new_tokens)
    with closing(jobs) as events:
        for event in events:
            yield (
                event
                if isinstance(event, Progress)
                else Progress(message_strip(event.message, "running"))
            )


def _checked(
    services: Services, session: Session, spec: PairSpec, plan: Plan, *, new: bool
) -> Plan:
    """The plan, all of whose runs these models can do; a new one has their revisions. Raises
    ValueError."""
    pair = session.pair
    if new:
        plan = replace(
            plan, models=Models(spec.key, pair.target_ref, pair.draft_ref, pair.head_ref)
        )
    check_models(plan, pair)
    check(plan, session)
    for config in chain(every_setting(plan, session), every_prompt(plan, session)):
        check_configs(services, session, (config,))
    return plan


def _follow(
    services: Services,
    worker: Worker,
    events: Iterator[Event],
    name: Name,
    runs: int,
    stopped: Callable[[], bool],
) -> Iterator[Progress]:
    """A line for every report of the worker. A sweep ends at the first run that failed."""
    started, done, plan = time.monotonic(), 0, worker.plan
    total = runs_planned(plan)
    status, why = Status.COMPLETED, ""

    def line(event: Writing) -> Strip:
        """Others are expected to go on at the pace of those that ended."""
        number, task = total - runs + done, plan.task(event.task)
        text = f"Run {count(min(number + 1, total))} of {count(total)}: {name(plan, event)}, prompt {count(task.item + 1)} of "
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
            if isinstance(event, Writing):
                yield Progress(line(event), worker)
            elif isinstance(event, Saved):
                for trace in event.traces:
                    services.observe(trace)
                done += 1
                yield Progress(line(Writing(event.task, event.lane, 0)), worker, event)
                if event.result.status is Status.FAILED and plan.varied is not None:
                    status, why = Status.FAILED, event.result.error
                    break
            elif stopped():  # others have the remaining tasks
                status = Status.CANCELLED
                break
    except Stopped as end:
        status, why = Status.CANCELLED, TIME_IS_UP if end.reason is StopReason.DEADLINE else ""
    yield Progress(message_strip("", "running"), worker, None, status, why)
