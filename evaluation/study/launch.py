"""Opens what a study needs and works on it: models, threads, further processes, signals, a line of progress.

The only place of this package that reads the environment (with ``processes``, for the launchers' variables).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from evaluation.scoring.metrics import check_libraries
from evaluation.study.check import check_models
from evaluation.study.engine import InProcess
from evaluation.study.plan import Models, Plan, read_plan
from evaluation.study.processes import Place, device_of, free_dead, own_name
from evaluation.study.progress import Pace
from evaluation.study.worker import Saved, Worker
from mars_core.models import CATALOG, ModelPool, PairSpec, custom_pair
from mars_core.models.source import is_local
from mars_core.session import Session
from mars_core.types import ModelRef
from storage import RunStore

INTERRUPTED = 130  # exit status of a worker that was asked to end
EVERY_S = 1.0  # between two lines of progress on a terminal
SELDOM_S = 15.0  # elsewhere


def open_session(options: argparse.Namespace, spec: PairSpec, place: Place) -> Session:
    """The models of a study on this process's device and threads. Raises ModelError."""
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.set_num_threads(options.threads or _threads(options.workers))
    local, beside = (place.local, place.world) if place.world > 1 else (0, options.workers)
    device = device_of(local, beside, options.device)
    pool = ModelPool(device=device, dtype=options.dtype, graphs=not options.no_graphs, exact=options.exact)
    return Session(pool.get(spec, lambda _: None))


def spec_of_models(models: Models) -> PairSpec:
    """The pair that a study was planned with. Raises ModelError."""
    found = next((spec for spec in CATALOG if spec.key == models.key), None)
    if found is not None:
        return found
    draft, head = (ref and _ref(ref) for ref in (models.draft, models.head))
    return custom_pair(_ref(models.target), draft, head)


def _ref(ref: ModelRef) -> ModelRef:
    """Without the content hash that stands for the revision of a folder."""
    return ModelRef(ref.name) if is_local(ref) else ref


@dataclass(slots=True)
class Work:
    """One process's part in a study, and the processes that it starts itself."""

    store: RunStore
    study_id: str
    session: Session
    place: Place
    quiet: bool = False
    asked_to_stop: bool = False
    _pace: Pace = field(default_factory=Pace, init=False)
    _shown_at: float = field(default=0.0, init=False)

    def run(self) -> bool:
        """Work until the study is done; False where the process was asked to end before. Raises StorageError, ValueError."""
        plan = read_plan(self.store.study(self.study_id).plan)
        check_models(plan, self.session.pair)
        check_libraries(plan.suites, execute_code=plan.execute_code)
        worker = Worker(
            self.store,
            self.study_id,
            plan,
            self.session,
            InProcess(self.session),
            own_name(),
            free_dead=lambda: free_dead(self.store, self.study_id),
        )
        with self._signals(), closing(worker.events()) as events:
            for event in events:
                if isinstance(event, Saved):
                    self._show(plan)
                if self.asked_to_stop:
                    return False
        self._show(plan, last=True)
        return True

    def _show(self, plan: Plan, *, last: bool = False) -> None:
        """A line of progress on standard error, by the first process only."""
        terminal = sys.stderr.isatty()
        now = time.monotonic()
        if (
            self.quiet
            or not self.place.first
            or (not last and now - self._shown_at < (EVERY_S if terminal else SELDOM_S))
        ):
            return
        self._shown_at = now
        line = self._pace.line(self.store.study_progress(self.study_id), len(plan.lanes))
        sys.stderr.write(f"\r\x1b[K{line}" + "\n" * last if terminal else f"{line}\n")
        sys.stderr.flush()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the run under way; what was committed stays, the task is given back."""

        def stop(*_: object) -> None:
            self.asked_to_stop = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def further_workers(options: argparse.Namespace, study_id: str) -> Iterator[None]:
    """``options.workers`` − 1 more processes on this machine; waited for at the end, told to stop where this one fails."""
    environment = dict(os.environ)
    if options.db:  # not an argument: may hold a password
        environment["MARS_DATABASE_URL"] = options.db
    command = [sys.executable, "-m", "evaluation", "resume", study_id, "--quiet", "--dtype", options.dtype]
    command += ["--exact", options.exact, "--threads", str(options.threads or _threads(options.workers))]
    command += ["--no-graphs"] * options.no_graphs
    started = [
        subprocess.Popen([*command, "--device", device_of(number, options.workers, options.device)], env=environment)
        for number in range(1, options.workers)
    ]
    try:
        yield
    except BaseException:
        for process in started:
            process.terminate()
        raise
    finally:
        ended = [process.wait() for process in started]
        if early := [status for status in ended if status not in (0, INTERRUPTED)]:
            sys.stderr.write(f"{len(early)} of {len(ended)} further workers ended early, with status {early[0]}.\n")


def _threads(workers: int) -> int:
    """The cores that this process may use, shared evenly among the workers of this machine."""
    beside = max(workers, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    return max(1, len(os.sched_getaffinity(0)) // beside)
