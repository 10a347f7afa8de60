"""Runs a study from the command line: models, threads, signals, progress.

Only this module reads the environment.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from threading import Event as Flag

from evaluation.plan.plan import Plan
from evaluation.progress import progress_bar, show_progress
from evaluation.scoring.metrics import check_libraries
from evaluation.study.check import check_models
from evaluation.study.engine import InProcess, LaneEngine
from evaluation.study.events import LaneEnded
from evaluation.study.runner import Runner
from evaluation.study.worker import Work, WorkerEvent
from mars_core.models import ModelPool, PairSpec
from mars_core.session import Session
from mars_core.settings.command_line import machine

INTERRUPTED = 130  # exit status of an interrupted study
MAX_THREADS = 1024
Events = Generator[WorkerEvent, None, None]
Waves = Iterator[Sequence[Events]]  # each in threads of their own; then the next ones


def open_session(options: argparse.Namespace, spec: PairSpec) -> Session:
    """Load the models of a study on this process's device and threads. Raises ValueError,
    ModelError."""
    report = (lambda _: None) if getattr(options, "quiet", False) else show_progress
    report("Loading torch and transformers")
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.set_num_threads(threads_of(options) or _threads())
    pool = ModelPool(**machine(options))
    pair = pool.get(spec, report)
    report("")
    return Session(pair)


def local_runner(plan: Plan, session: Session | None, engine: LaneEngine) -> Runner:
    """Raises ValueError for models other than the plan's."""
    if session:
        check_models(plan, session.pair)
        check_libraries(plan.suites, execute_code=plan.execute_code)
    return Runner(plan, session, engine, plan.batch if isinstance(engine, InProcess) else 1)


def in_threads(work: Work, runner: Runner) -> Waves:
    """Start as many threads as the plan has requests in flight."""
    tasks = work.store.open_tasks(work.study_id)
    for below, threads in runner.plan.waves:
        left = deque(task for task in tasks if task < below)
        tasks = tasks[len(left) :]
        yield [work.run(replace(runner), left) for _ in range(threads)]


def follow(work: Work, plan: Plan, waves: Waves, *, quiet: bool) -> int:
    """Works on a study until it is done. Exit status INTERRUPTED if it was interrupted before,
    else 0. Raises StorageError, ValueError."""

    def run(events: Events) -> None:
        try:
            with closing(events):
                for event in events:
                    if isinstance(event, LaneEnded):
                        with bar.get_lock():
                            bar.update()
                    if requested.is_set():
                        return
        except BaseException:
            requested.set()  # ends the other threads
            raise

    before = work.store.study_progress(work.study_id).results
    bar = progress_bar(plan.runs, "results", initial=before, disable=quiet)
    with work, _stop_requested() as requested:
        with bar, suppress(KeyboardInterrupt):  # of a second signal
            for wave in waves:
                if len(wave) == 1:
                    run(*wave)
                else:
                    with ThreadPoolExecutor(len(wave)) as pool:
                        list(pool.map(run, wave))
                if requested.is_set():
                    break
        if requested.is_set():
            sys.stderr.write(
                "Stopped; completed runs were saved. Continue with: mars eval resume "
                f"{work.study_id}\n"
            )
            return INTERRUPTED
    return 0


@contextmanager
def _stop_requested() -> Iterator[Flag]:
    """Yield an event set by Ctrl-C and SIGTERM: what runs is dropped after its step, a batch when
    the next of its runs has ended, or at a second signal. Committed results stay."""
    requested = Flag()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(*_: object) -> None:
        requested.set()
        restore()

    for number in numbers:
        signal.signal(number, stop)
    try:
        yield requested
    finally:
        restore()


def threads_of(options: argparse.Namespace) -> int | None:
    """Read ``--threads``, if it is given. Raises ValueError."""
    threads: int | None = options.threads
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"--threads is {threads}; it must be 1 to {MAX_THREADS}.")
    return threads


def _threads() -> int:
    """Return OMP_NUM_THREADS, else the cores available to this process."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads):
        return int(threads)
    return len(os.sched_getaffinity(0))
