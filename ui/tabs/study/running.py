"""Runs a study on the page: its tasks in the queue, and how far it has come. Plain generators."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from display.format import about, count
from display.names import drafts_label
from evaluation.advise.plans import advisable, with_candidates
from evaluation.advise.tuning import decoding
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan, read_plan
from evaluation.study.check import (
    check,
    check_models,
    check_sampler,
    every_prompt,
    every_setting,
)
from evaluation.study.engine import Accelerated
from evaluation.study.events import LaneEnded, LaneProgress, Stopped
from evaluation.study.worker import Work, WorkerEvent
from mars_core.types import Status, StopReason
from storage import RunStore, StorageError
from ui.jobs.admission import RUNNING, JobError, check_configs, job_errors
from ui.jobs.driver import with_models
from ui.jobs.services import Services
from ui.kit.components import WARMING, Strip, message_strip
from ui.tabs.study.form import ALPHA, StudyForm, StudyJob, admitted, check_size

if TYPE_CHECKING:
    from evaluation.study.launch import Waves
    from mars_core.session import Session

TIME_IS_UP = "The time for one job is up"
NOT_BEGUN = "before strict’s runs were done that choose the settings; nothing was stored."


class StudyFrame(NamedTuple):
    """How far a study has come. ``study``: its id, once it is stored; ``saved``: a result was just
    stored; ``status``: of the last one only, ``why``: in a sentence."""

    strip: Strip
    study: str = ""
    saved: bool = False
    status: Status | None = None
    why: str = ""


def started(services: Services, form: StudyForm) -> Iterator[StudyFrame]:
    """Runs a new study. Raises JobError."""
    with job_errors(services):
        job = admitted(services, form)
    yield from _frames(services, job)


def resumed(services: Services, study_id: str) -> Iterator[StudyFrame]:
    """Goes on with a stored study of the visitor. Raises JobError."""
    with job_errors(services):
        if not resumable(services.store, study_id):
            raise ValueError(
                "This study cannot be resumed here: it is done, running, not yours, or executes "
                "code."
            )
        plan = read_plan(services.store.study(study_id).plan)
        check_sampler(plan, services.store, study_id)
        left = _left(services.store, study_id, plan)
        check_size(services, plan, left)
        spec = plan.models.spec(services.catalog)
    yield from _frames(services, StudyJob(spec, plan, left, study=study_id))


def resumable(store: RunStore, study_id: str, share: str = "") -> bool:
    """Return whether the reader of ``store`` can go on with a study from the page: one that nobody
    works on, without code to execute, of models here."""
    with suppress(ValueError, StorageError):
        progress, study = store.study_progress(study_id), store.study(study_id)
        elsewhere = any(study.plan.get(name) for name in ("execute_code", "served"))
        return not (share or progress.working or study.done == study.tasks or elsewhere)
    return False


def _left(store: RunStore, study_id: str, plan: Plan) -> int:
    return max(1, plan.runs - store.study_progress(study_id).results)


def _frames(services: Services, job: StudyJob) -> Iterator[StudyFrame]:
    jobs = with_models(
        services,
        job.spec,
        lambda session: _work(services, job, session),
        runs=job.runs,
        new_tokens=job.plan.max_new_tokens,
    )
    with closing(jobs) as events:
        for event in events:
            yield (
                event
                if isinstance(event, StudyFrame)
                else StudyFrame(message_strip(event.message, "running"))
            )


def _work(services: Services, job: StudyJob, session: Session) -> Generator[StudyFrame, None, None]:
    from evaluation.advise.conduct import in_sequence  # imported here because it loads transformers
    from evaluation.study.launch import in_threads, local_runner

    stop, plan, note = services.stop, job.plan, ""
    engine = Accelerated(job.spec, services.accelerator, stop, services.limits.seconds or math.inf)
    with job_errors(services):
        if not job.study:
            pair = session.pair
            plan = replace(plan, models=replace(Models.of(pair), key=job.spec.key))
        _check(services, session, plan)
        if job.advises:
            plan, note = yield from _advised(session, engine, plan)
            _check(services, session, plan)
        study = job.study or services.store.new_study(plan.name, plan.as_dict(), plan.tasks)
        work = Work(services.store, study)
        runner = local_runner(plan, session, engine)
        waves = (in_sequence if plan.advice else in_threads)(work, runner)
        events = _in_turn(waves)
    with job_errors(services, RUNNING), work, closing(events):
        yield StudyFrame(message_strip(WARMING, "running"), study)
        yield from _followed(services, plan, study, note, events)


def _in_turn(waves: Waves) -> Generator[WorkerEvent, None, None]:
    for wave in waves:
        for events in wave:
            yield from events


def _check(services: Services, session: Session, plan: Plan) -> None:
    """Check whether these models can do all runs of the plan. Raises ValueError."""
    check_models(plan, session.pair)
    check(plan, session)
    for config in chain(every_setting(plan, session), every_prompt(plan, session)):
        check_configs(services, session, (config,))


def _advised(
    session: Session, engine: Accelerated, plan: Plan
) -> Generator[StudyFrame, None, tuple[Plan, str]]:
    """Return the plan with the settings that strict's runs suggest, and a sentence where it
    probably supports none of them. Raises JobError where they were stopped, and ValueError."""
    tuning, _, strict = advisable(plan, ALPHA)
    ended, notes = list[LaneEnded](), list[str]()
    try:
        with closing(decoding(tuning, session, engine, [strict])) as events:
            for event in events:
                ended += [event] if isinstance(event, LaneEnded) else []
                number = count(min(len(ended) + 1, tuning.tasks))
                text = f"Choosing settings: strict, run {number} of {count(tuning.tasks)}"
                progress = len(ended) / tuning.tasks
                yield StudyFrame(message_strip(text, "running", progress=progress))
    except Stopped as end:
        why = TIME_IS_UP if end.reason is StopReason.DEADLINE else "Stopped"
        raise JobError(f"{why} {NOT_BEGUN}", "cancelled") from None
    return with_candidates(plan, session, ALPHA, ended, notes.append), " ".join(notes)


def _followed(
    services: Services, plan: Plan, study: str, note: str, events: Iterator[WorkerEvent]
) -> Iterator[StudyFrame]:
    """Yield a line for every report of the workers of a study. ``note``: a sentence on what to
    expect."""
    left, total, done = _left(services.store, study, plan), plan.runs, 0
    began, most = time.monotonic(), "at most " if plan.advice else ""

    def line(event: LaneProgress) -> Strip:
        """Say how far the study is; other runs are expected to go on at the pace of those that
        ended."""
        number, task = total - left + done, plan.task(event.task)
        lane = plan.lanes[event.lane]
        drafts = [drafts_label(lane.drafts)] if lane.drafts else []
        way = ", ".join((lane.title, *drafts, f"T = {task.temperature:g}"))
        text = (
            f"Run {count(min(number + 1, total))} of {most}{count(total)}: {way}, prompt "
            f"{count(task.item + 1)} of {count(len(plan.suites[task.suite].items))}"
        )
        known = 0 < done <= left
        seconds = (time.monotonic() - began) * (left - done) / max(1, done)
        part = min(1.0, event.tokens / plan.max_new_tokens)
        return message_strip(
            ". ".join(filter(None, (text, note))),
            "running",
            side=f"{most}{about(seconds)} to go" if known else "",
            progress=min(1.0, (number + part) / total),
        )

    status, why = Status.COMPLETED, ""
    try:
        for event in events:
            if isinstance(event, LaneProgress):
                yield StudyFrame(line(event), study)
            elif isinstance(event, LaneEnded):
                for trace in event.traces:
                    services.observe(trace)
                done += 1
                yield StudyFrame(line(LaneProgress(event.task, event.lane, 0)), study, saved=True)
            elif services.stop.requested():  # others have the remaining tasks
                status = Status.CANCELLED
                break
    except Stopped as end:
        status = Status.CANCELLED
        why = TIME_IS_UP if end.reason is StopReason.DEADLINE else ""
    yield StudyFrame(message_strip("", "running"), study, status=status, why=why)
