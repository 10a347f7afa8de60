"""Runs a study from the command line: models, threads, worker processes, signals, progress.

Only this module and ``processes`` (launchers' variables) read the environment.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from threading import Event

from evaluation.scoring.metrics import check_libraries
from evaluation.study.check import check_models
from evaluation.study.engine import LaneEngine
from evaluation.study.plan import read_plan
from evaluation.study.processes import ProcessRank, device_of, free_dead, own_name, progress_line
from evaluation.study.runner import Runner
from evaluation.study.worker import LaneSaved, Worker
from mars_core.models import ModelPool, PairSpec
from mars_core.session import Session
from storage import RunStore

INTERRUPTED = 130  # exit status of an interrupted worker
TERMINAL_S = 1.0  # between two progress lines on a terminal
LOG_S = 15.0  # and elsewhere
TERMINATED_S = 90.0  # for a worker to end its step and to release its task


def open_session(options: argparse.Namespace, spec: PairSpec, rank: ProcessRank) -> Session:
    """The models of a study on this process's device and threads. Raises ModelError."""
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.set_num_threads(options.threads or _threads(options.workers))
    local, beside = (rank.local, rank.world) if rank.world > 1 else (0, options.workers)
    device = device_of(local, beside, options.device)
    pool = ModelPool(device=device, dtype=options.dtype, graphs=not options.no_graphs)
    return Session(pool.get(spec, lambda _: None))


def work(
    store: RunStore, study_id: str, session: Session | None, engine: LaneEngine, *, quiet: bool
) -> int:
    """Works on a study until it is done, in as many threads as the plan has requests in flight.
    Exit status INTERRUPTED if it was interrupted before, else 0. Raises StorageError,
    ValueError."""
    plan = read_plan(store.study(study_id).plan)
    if session:
        check_models(plan, session.pair)
        check_libraries(plan.suites, execute_code=plan.execute_code)
    terminal, printed_at = sys.stderr.isatty(), 0.0
    line = _progress(store, study_id, len(plan.lanes))

    def show(end: str = "") -> None:
        if not quiet:
            sys.stderr.write(f"\r\x1b[K{line()}{end}" if terminal else f"{line()}\n")
            sys.stderr.flush()

    def run(below: int) -> None:
        nonlocal printed_at
        free = partial(free_dead, store, study_id)
        runner = Runner(plan, session, engine, plan.batch if session else 1)
        worker = Worker(store, study_id, runner, own_name(), free_dead=free, below=below)
        try:
            with closing(worker.events()) as events:
                for event in events:
                    if isinstance(event, LaneSaved) and time.monotonic() - printed_at >= (
                        TERMINAL_S if terminal else LOG_S
                    ):
                        printed_at = time.monotonic()
                        show()
                    if requested.is_set():
                        return
        except BaseException:
            requested.set()  # ends the other threads
            raise

    with _stop_requested() as requested:
        for below, threads in plan.waves:
            if threads == 1:
                run(below)
            else:
                with ThreadPoolExecutor(threads) as pool:
                    list(pool.map(run, [below] * threads))
            if requested.is_set():
                sys.stderr.write(
                    f"Stopped; completed runs were saved. Continue with: mars eval resume {study_id}\n"
                )
                return INTERRUPTED
    show("\n")
    return 0


def _progress(store: RunStore, study_id: str, lanes: int) -> Callable[[], str]:
    """The line of the progress from now on."""
    before, started = store.study_progress(study_id).results, time.monotonic()
    return lambda: progress_line(
        store.study_progress(study_id), lanes, before, time.monotonic() - started
    )


@contextmanager
def _stop_requested() -> Iterator[Event]:
    """An event set by Ctrl-C and SIGTERM: what runs is dropped after its step, a batch when the
    next of its runs has ended, or at a second signal. Committed results stay."""
    requested = Event()
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


@contextmanager
def further_workers(options: argparse.Namespace, study_id: str) -> Iterator[None]:
    """``options.workers`` − 1 more processes on this machine; joined at the end, terminated if this
    one fails."""
    environment = dict(os.environ)
    if options.db:  # not an argument, because it may contain a password
        environment["MARS_DATABASE_URL"] = options.db
    command = [
        sys.executable,
        "-m",
        "mars_playground",
        "eval",
        "resume",
        study_id,
        "--quiet",
        "--dtype",
        options.dtype,
    ]
    command += ["--threads", str(options.threads or _threads(options.workers))]
    if options.no_graphs:
        command.append("--no-graphs")
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(1, options.workers):
            device = device_of(number, options.workers, options.device)
            started.append(subprocess.Popen([*command, "--device", device], env=environment))
        yield
    except BaseException:
        for process in started:
            process.terminate()
        until = time.monotonic() + TERMINATED_S
        for process in started:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        raise
    finally:
        ended = [process.wait() for process in started]
        if early := [status for status in ended if status not in (0, INTERRUPTED)]:
            sys.stderr.write(
                f"{len(early)} of {len(ended)} further workers ended early, with status {early[0]}.\n"
            )


def _threads(workers: int) -> int:
    """OMP_NUM_THREADS; without it, or where a launcher has set it, the cores available to this
    process, divided evenly among the workers of this machine."""
    launched, threads = (
        int(os.environ.get("LOCAL_WORLD_SIZE", "0")),
        os.environ.get("OMP_NUM_THREADS", ""),
    )
    if threads.isdecimal() and int(threads) and not launched:
        return int(threads)
    return max(1, len(os.sched_getaffinity(0)) // max(workers, launched))
