"""Runs a sweep, pair by pair, and keeps every pair as a comparison. A plain generator: who iterates it decides what is shown.

All settings are run for one prompt, in random order, before the next: a sweep that is stopped has measured each about equally often.
Within a pair strict and the rule run back to back in random order, each warmed up, so that a drift of the machine favours neither.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from evaluation.sweeps.plan import BASELINE, Cell, Plan
from evaluation.sweeps.points import Result, result_of
from mars_core.comparison import RUN_FAILURES, execution_order, warm_up
from mars_core.types import PromptConfig, RuleConfig, RunConfig, Sampling, Status, Trace
from storage import RunStore, Source, StorageError

if TYPE_CHECKING:
    from mars_core.session import Run, Session

INTERVAL_S = 0.25  # between two reports of one run
Work = Callable[[Callable[[], Any]], Any]  # runs a function where models run, and returns its result


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
    """A sweep under way; owned by its generator. A test may fix ``order``."""

    plan: Plan
    session: Session
    store: RunStore
    id: str
    work: Work = lambda function: function()
    stopped: Callable[[], bool] = lambda: False
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
    for number, task in enumerate(_tasks(sweep)):
        if not number:  # in a fresh process the warm-up of each run alone is not enough
            for config in configs_of(sweep.plan, sweep.session, task):
                sweep.work(partial(warm_up, sweep.session, config))
        if sweep.stopped():
            return Status.CANCELLED, ""
        traces = yield from _pair(sweep, task)
        for trace in traces.values():
            if trace.status is not Status.COMPLETED:
                return trace.status, trace.error
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
    traces: dict[int, Trace] = {}
    for place, lane in enumerate(sweep.order(2)):
        if sweep.stopped():
            return traces
        yield sweep.progress(task, run=place)
        sweep.work(partial(warm_up, sweep.session, configs[lane]))
        run = sweep.session.start(configs[lane])
        try:
            yield from _stream(sweep, task, run, place)
        finally:
            traces[lane] = run.trace()
            sweep.store.save_run(comparison, traces[lane], lane=lane, order=place)
        if traces[lane].status is not Status.COMPLETED:
            return traces
    sweep.results.append(
        result_of(
            comparison, task.cell, case=task.case, repeat=task.repeat, strict=traces[0], rule=traces[1],
            reference=sweep.plan.cases[task.case].reference,
        )
    )  # fmt: skip
    return traces


def _stream(sweep: Sweep, task: Task, run: Run, place: int) -> Iterator[Progress]:
    """Reports while a run goes on; its trace tells how it ended."""
    tokens, goes_on = 0, True
    while goes_on:
        found, goes_on = sweep.work(partial(_burst, run, sweep.stopped))
        tokens += found
        if goes_on:
            yield sweep.progress(task, run=place, tokens=tokens)


def _burst(run: Run, stopped: Callable[[], bool]) -> tuple[int, bool]:
    """Decode for an interval: how many tokens that gave, and whether the run goes on. Cancels it once it is ``stopped``."""
    tokens, ends = 0, time.monotonic() + INTERVAL_S
    with suppress(*RUN_FAILURES):
        for step in run:
            tokens += len(step.emitted)
            if stopped():
                run.cancel()
            elif time.monotonic() >= ends:
                return tokens, True
    return tokens, False


def _prompt(plan: Plan, text: str) -> PromptConfig:
    return PromptConfig(text, system=plan.system, chat=plan.chat, stop=plan.stop)


def _keep(sweep: Sweep, status: Status) -> None:
    sweep.store.update_sweep(sweep.id, status=status, results=[result.as_dict() for result in sweep.results])
