"""Runs a sweep, pair by pair, and keeps every pair as a comparison. A plain generator: who iterates it decides what is shown.

All settings are run for one prompt, in random order, before the next: a sweep that is stopped has measured each about equally often.
Within a pair strict and the rule run back to back in random order, each warmed up, so that a drift of the machine favours neither.

A pair is one job of the accelerator. On ZeroGPU that is one call: its time is asked for, and counted, by the pair, so that a long sweep
fits a quota as far as it goes, a short call is served sooner, and a process that dies takes one pair with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from evaluation.sweeps.plan import BASELINE, Cell, Plan
from evaluation.sweeps.points import Result, result_of
from mars_core.jobs import Accelerator, Began, Ended, Event, Job, Stop, Wrote
from mars_core.jobs.comparison import execution_order
from mars_core.jobs.record import Record
from mars_core.types import PromptConfig, RuleConfig, RunConfig, Sampling, Status, StopReason, Trace
from storage import RunStore, Source, StorageError

if TYPE_CHECKING:
    from mars_core.session import Session

INTERVAL_S = 0.25  # between two reports of one run
TIME_IS_UP = "The time for one sweep is up."


class Never:
    """Nobody asks to stop."""

    def requested(self) -> bool:
        return False


class Task(NamedTuple):
    """One pair of runs."""

    cell: Cell
    case: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is. ``status`` is None while it goes on; ``error`` is one sentence, only with status failed."""

    total: int
    results: tuple[Result, ...] = ()
    task: Task | None = None  # under way
    run: int = 0  # of the pair, 0 or 1
    tokens: int = 0  # of that run
    elapsed_s: float = 0.0
    status: Status | None = None
    error: str = ""

    @property
    def remaining_s(self) -> float:
        """At the pace so far; nan before the first pair has ended."""
        done = len(self.results)
        return self.elapsed_s / done * (self.total - done) if done else math.nan


@dataclass(slots=True)
class Sweep:
    """A sweep under way; owned by its generator. A test may fix ``order``. ``seconds``: of wall clock for all of it; ``saved`` is
    called with every run that was saved."""

    plan: Plan
    session: Session
    store: RunStore
    id: str
    accelerator: Accelerator
    stop: Stop = field(default_factory=Never)
    seconds: float = math.inf
    saved: Callable[[Trace], None] = lambda _: None
    order: Callable[[int], list[int]] = execution_order
    results: list[Result] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def progress(self, task: Task | None = None, **changed: Any) -> Progress:
        now = time.monotonic() - self.started
        return Progress(self.plan.comparisons, tuple(self.results), task, elapsed_s=now, **changed)


def check(plan: Plan, session: Session) -> None:
    """Raises ValueError with one sentence for the first setting that these models cannot run."""
    from mars_core.validation import validate  # here, as session below: the page starts without all that models need

    for cell in plan.cells:
        for config in configs_of(plan, session, Task(cell, 0, 0)):
            validate(config, session.pair)
    for number, case in enumerate(plan.cases, start=1):
        length = session.count_tokens(_prompt(plan, case.prompt))
        if length + plan.max_new_tokens > session.pair.context:
            raise ValueError(
                f"Prompt {number} has {length} tokens and max_new_tokens is {plan.max_new_tokens}; "
                f"together they must be at most {session.pair.context}, the context of these models."
            )


def widest(plan: Plan, session: Session) -> Iterator[tuple[RunConfig, RunConfig]]:
    """Pairs of runs that ask for the most: every setting once, and every prompt."""
    for cell in plan.cells:
        yield configs_of(plan, session, Task(cell, 0, 0))
    for case in range(1, len(plan.cases)):
        yield configs_of(plan, session, Task(plan.cells[0], case, 0))


def configs_of(plan: Plan, session: Session, task: Task) -> tuple[RunConfig, RunConfig]:
    """Strict and the rule at one setting on one prompt."""
    from mars_core.session import run_config

    drafter = plan.drafter if task.cell.k is None else replace(plan.drafter, k=task.cell.k)
    strict = run_config(
        session.pair,
        prompt=_prompt(plan, plan.cases[task.case].prompt),
        rule=RuleConfig(BASELINE),
        drafter=drafter,
        sampling=Sampling(task.cell.temperature, plan.top_k, plan.top_p),
        max_new_tokens=plan.max_new_tokens,
        seed=plan.seed_of(task.repeat, task.case),
    )
    return strict, replace(strict, rule=RuleConfig(plan.rule, plan.parameters(task.cell)))


def run_sweep(sweep: Sweep) -> Generator[Progress, None, None]:
    """Run all pairs; the last report has a status. What ended is in the store after every pair, however the sweep ends.

    Raises StorageError where the store fails.
    """
    status, error = Status.CANCELLED, ""
    try:
        status, error = yield from _pairs(sweep)
    except StorageError:
        status = Status.FAILED
        raise
    finally:
        _keep(sweep, status)
    yield sweep.progress(status=status, error=error)


def _pairs(sweep: Sweep) -> Generator[Progress, None, tuple[Status, str]]:
    """All pairs; returns how the sweep ended, and why it failed if it did."""
    yield sweep.progress()
    for task in _tasks(sweep):
        if sweep.stop.requested():
            return Status.CANCELLED, ""
        traces = yield from _pair(sweep, task)
        for trace in traces.values():
            if trace.status is not Status.COMPLETED:
                return trace.status, TIME_IS_UP if trace.stop_reason is StopReason.DEADLINE else trace.error
        if len(traces) < 2:
            return Status.CANCELLED, ""
        _keep(sweep, Status.CANCELLED)  # what a process that is killed now leaves
    return Status.COMPLETED, ""


def _tasks(sweep: Sweep) -> Iterator[Task]:
    plan = sweep.plan
    for repeat in range(plan.repeats):
        for case in range(len(plan.cases)):
            for index in sweep.order(len(plan.cells)):
                yield Task(plan.cells[index], case, repeat)


def _pair(sweep: Sweep, task: Task) -> Generator[Progress, None, dict[int, Trace]]:
    """Both runs of a pair; returns the traces by lane of those that were started, and notes the result of a whole pair."""
    configs = configs_of(sweep.plan, sweep.session, task)
    comparison = sweep.store.new_comparison(configs[0].prompt, source=Source.SWEEP, sweep_id=sweep.id)
    left = max(0.0, sweep.seconds - (time.monotonic() - sweep.started))
    job = Job(sweep.session.pair.spec, configs, tuple(sweep.order(2)), left, INTERVAL_S)
    traces: dict[int, Trace] = {}
    yield sweep.progress(task)
    with closing(sweep.accelerator.run(job, sweep.stop)) as events:
        for event in events:
            if isinstance(event, Began):
                yield from _run(sweep, task, comparison, job, event, events, traces)
            if any(trace.status is not Status.COMPLETED for trace in traces.values()):
                return traces
    if len(traces) == 2:
        sweep.results.append(
            result_of(
                comparison, task.cell, case=task.case, repeat=task.repeat, strict=traces[0], rule=traces[1],
                reference=sweep.plan.cases[task.case].reference,
            )
        )  # fmt: skip
    return traces


def _run(
    sweep: Sweep, task: Task, comparison: str, job: Job, began: Began, events: Iterator[Event], traces: dict[int, Trace]
) -> Iterator[Progress]:
    """Reports while one run goes on; whatever happens, it is saved."""
    record, place, tokens = Record(began), job.order.index(began.run), 0
    try:
        for event in events:
            assert isinstance(event, Wrote | Ended)
            record.follow(event)
            if isinstance(event, Ended):
                return
            tokens += sum(len(step.emitted) for step in event.steps)
            if not event.last:
                yield sweep.progress(task, run=place, tokens=tokens)
    finally:
        traces[began.run] = record.trace()
        sweep.store.save_run(comparison, traces[began.run], lane=began.run, order=place)
        sweep.saved(traces[began.run])


def _prompt(plan: Plan, text: str) -> PromptConfig:
    return PromptConfig(text, system=plan.system, chat=plan.chat, stop=plan.stop, thinking=plan.thinking)


def _keep(sweep: Sweep, status: Status) -> None:
    sweep.store.update_sweep(sweep.id, status=status, results=[result.as_dict() for result in sweep.results])
