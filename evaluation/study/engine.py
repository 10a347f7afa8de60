"""Runs one lane on one item: each turn with the lane's own answers before it, in a session of this process or on the page's accelerator.

``run`` yields how many tokens were written since it yielded last and returns the trace; closed, the run ends before its next step.
It raises ValueError for a configuration that cannot be started.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from evaluation.study.plan import Plan, Task
from evaluation.study.result import answer
from mars_core.jobs import RUN_FAILURES, Accelerator, Began, Job, Record, Stop, Wrote
from mars_core.models import PairSpec
from mars_core.types import Exchange, RunConfig, Status, Trace

if TYPE_CHECKING:
    from mars_core.session import Session

INTERVAL_S = 0.25  # between two reports of an accelerator


class Engine(Protocol):
    """Runs configurations, one after the other."""

    def warm_up(self, config: RunConfig) -> None: ...

    def run(self, config: RunConfig) -> Generator[int, None, Trace | None]:
        """The trace; None where a stop was requested before the run began."""
        ...


@dataclass(frozen=True, slots=True)
class InProcess:
    """Runs in the caller's thread."""

    session: Session

    def warm_up(self, config: RunConfig) -> None:
        self.session.warm_up(config)

    def run(self, config: RunConfig) -> Generator[int, None, Trace | None]:
        run = self.session.start(config)
        try:
            with suppress(*RUN_FAILURES):  # the trace has the error
                for step in run:
                    yield len(step.emitted)
            return run.trace()
        finally:
            run.close()


@dataclass(slots=True)
class Accelerated:
    """Each run is one job of the accelerator, warmed up within it: on ZeroGPU one call, whose time is requested and counted by itself.

    ``seconds``: of wall clock for all runs together, after which the run under way is cancelled with reason deadline.
    """

    pair: PairSpec
    accelerator: Accelerator
    stop: Stop
    seconds: float = math.inf
    _started: float = field(default_factory=time.monotonic, init=False)

    def warm_up(self, config: RunConfig) -> None:
        """The job does."""

    def run(self, config: RunConfig) -> Generator[int, None, Trace | None]:
        left = max(0.0, self.seconds - (time.monotonic() - self._started))
        record: Record | None = None
        with closing(self.accelerator.run(Job(self.pair, (config,), (0,), left, INTERVAL_S), self.stop)) as events:
            for event in events:
                if isinstance(event, Began):
                    record = Record(event)
                    continue
                assert record is not None
                record.follow(event)
                if isinstance(event, Wrote):
                    yield sum(len(step.emitted) for step in event.steps)
        return record.trace() if record else None


def config_of(plan: Plan, session: Session, task: Task, lane: int) -> RunConfig:
    """The first turn of a task in a lane."""
    from mars_core.session import run_config  # here: it needs the models' libraries

    chosen = plan.lanes[lane]
    return run_config(
        session.pair,
        prompt=plan.prompt(plan.item(task)),
        rule=chosen.rule,
        drafter=chosen.drafter,
        sampling=plan.sampling(task),
        max_new_tokens=plan.max_new_tokens,
        seed=plan.seed_of(task),
    )


def converse(engine: Engine, first: RunConfig, turns: tuple[str, ...]) -> Generator[int, None, tuple[Trace, ...]]:
    """Yields as ``Engine.run`` and returns the traces of the turns that began; after one that is not completed no turn follows.

    Raises ValueError where a turn cannot be started.
    """
    traces: list[Trace] = []
    history: tuple[Exchange, ...] = ()
    for turn in turns:
        trace = yield from engine.run(replace(first, prompt=replace(first.prompt, text=turn, history=history)))
        if trace is None:
            break
        traces.append(trace)
        if trace.status is not Status.COMPLETED:
            break
        history = (*history, Exchange(turn, answer(trace)))
    return tuple(traces)
