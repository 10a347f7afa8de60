"""Executes a job in the process that has the models, and yields its events."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial

from mars_core.jobs import RUN_FAILURES, Began, Ended, Job, JobEvent, Why, Wrote, reason_to_end
from mars_core.models import ModelPool
from mars_core.models.pool import collect
from mars_core.runs.run import Run, failure
from mars_core.session import Session
from mars_core.types import Status, Step, StopReason


def perform(
    pool: ModelPool, job: Job, stopped: Callable[[], bool]
) -> Generator[JobEvent, None, None]:
    """Execute the runs of ``job``, one after the other; a warm-up precedes the first run of each
    configuration, and in a new process two, but for a single run on a CPU. Raises ModelError if the
    pair cannot be loaded. The deadline is checked after the first step of a run at the earliest, so
    that the trace has that reason. A failed run frees its memory."""
    session = Session(pool.get(job.pair))
    why = partial(reason_to_end, stopped, time.monotonic() + job.seconds)
    cold = set() if job.warm else set(job.order)
    alone = len(cold) == 1 and session.pair.device.type == "cpu"  # compared with no other
    for number in (
        [] if alone or job.pair in pool.ran else sorted(cold)
    ):  # in a new process one warm-up is not sufficient
        if why() is None:
            session.warm_up(job.configs[number])
    for number in job.order:
        if number in cold and why() is None:
            session.warm_up(job.configs[number])
        cold.discard(number)
        if stopped():
            return
        ended = yield from _run(session, job, number, why)
        if ended.status is Status.FAILED:
            session.pair.engines.clear()
            collect()
        yield ended
        if ended.status is Status.COMPLETED:
            pool.ran.add(job.pair)
        elif ended.status is Status.CANCELLED:
            return


def _run(session: Session, job: Job, number: int, why: Why) -> Generator[JobEvent, None, Ended]:
    """Execute one run. Its last event is returned, not yielded: its caches have been released by
    then. The first step is reported alone, then those of each interval. Raises ValueError for an
    invalid configuration."""
    checked = session.check(job.configs[number])
    try:
        run = session.open(checked)
        run.why = why
    except RUN_FAILURES as error:  # e.g. not enough memory for its caches
        yield session.began(number, checked)
        return Ended(
            number, Status.FAILED, StopReason.ERROR, failure(error, str(session.pair.device))
        )
    yield Began(number, run.config, run.prompt_ids, run.given, run.text)
    seconds, goes_on = 0.0, True
    while goes_on:
        steps, goes_on = decode_for(run, seconds, why)
        yield Wrote(
            number, tuple(steps), run.text, run.prefill_s, run.peak_memory_bytes, not goes_on
        )
        seconds = job.interval_s
    return Ended(number, run.status, run.stop_reason, run.error)


def decode_for(run: Run, seconds: float, why: Why) -> tuple[list[Step], bool]:
    """Steps until ``seconds`` have passed, at least one, and whether the run continues. Cancels it
    once ``why`` returns a reason."""
    steps: list[Step] = []
    ends = time.monotonic() + seconds
    with suppress(*RUN_FAILURES):
        for step in run:
            steps.append(step)
            if (end := why()) is not None:
                run.cancel(end)
            elif time.monotonic() >= ends:
                return steps, True
    return steps, False
