"""Runs one lane on one item: each turn continues the lane's answers, in a session of this
process or on the page's accelerator.

``run`` yields the number of new tokens since the last yield and returns the trace; closing it ends
the run before its next step. It raises ValueError for an invalid configuration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from evaluation.plan.lane import BASELINE, MOST_SEEDS, SHARPENED
from evaluation.plan.plan import Plan, Task
from evaluation.study.placebo import placebo_of
from evaluation.study.result import answer
from mars_core import __version__
from mars_core.jobs import RUN_FAILURES, Accelerator, Job, RecordedRun, Stop, Wrote, follow
from mars_core.models import PairSpec
from mars_core.rules.placebo import PLACEBO
from mars_core.types import ModelRef, RuleConfig, RunConfig, Status, Trace

if TYPE_CHECKING:
    from mars_core.session import Session

INTERVAL_S = 0.25  # between two reports of an accelerator


class LaneEngine(Protocol):
    """Runs configurations, one after the other."""

    def warm_up(self, config: RunConfig) -> None: ...

    def run(self, config: RunConfig) -> Generator[int, None, Trace | None]:
        """Return the trace; None if a stop was requested before the run began."""
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
    """Each run is one job of the accelerator, including its warm-up: on ZeroGPU one call with its
    own time quota.

    ``seconds``: wall time for all runs together, after which the current run is cancelled with
    reason deadline.
    """

    pair: PairSpec
    accelerator: Accelerator
    stop: Stop
    seconds: float = math.inf
    _started: float = field(default_factory=time.monotonic, init=False)

    def warm_up(self, config: RunConfig) -> None:
        """Does nothing: the job includes the warm-up."""

    def run(self, config: RunConfig) -> Generator[int, None, Trace | None]:
        left = max(0.0, self.seconds - (time.monotonic() - self._started))
        records: dict[int, RecordedRun] = {}
        with closing(
            self.accelerator.run(Job(self.pair, (config,), (0,), left, INTERVAL_S), self.stop)
        ) as events:
            for event in events:
                follow(records, event)
                if isinstance(event, Wrote):
                    yield sum(len(step.emitted) for step in event.steps)
        return records[0].trace() if records else None


def placebos_of(
    plan: Plan, session: Session | None, task: Task, lane: int, imitated: Sequence[Trace]
) -> tuple[RuleConfig, ...]:
    """Return the rules of the turns of a task in a lane that imitates these runs."""
    from mars_core.engine.build import protected  # imported here because it loads transformers

    assert session is not None
    chosen = plan.lanes[lane]
    if chosen.rule.name != PLACEBO.name:
        raise ValueError(
            f"The lane {chosen.name} is a placebo with one probability, of an earlier version; only "
            "that version can run it."
        )
    ids = protected(session.pair, plan.processors.protect)
    draw = plan.seed_of(task) % 2**32 * MOST_SEEDS + int(chosen.rule.parameters["draw"])
    return tuple(placebo_of(trace, chosen, draw, ids) for trace in imitated)


def config_of(
    plan: Plan,
    session: Session | None,
    task: Task,
    lane: int,
    rule: RuleConfig | None = None,
) -> RunConfig:
    """Return the first turn of a task in a lane. ``session``: None for a study on servers.
    ``rule``: that of the turn where it is not the lane's."""
    chosen, prompt = plan.lanes[lane], plan.prompt(plan.item(task))
    settings: dict[str, Any] = {
        "prompt": prompt,
        "rule": rule or (RuleConfig(BASELINE) if chosen.rule.name == SHARPENED else chosen.rule),
        "drafter": chosen.drafter,
        "sampling": plan.sampling(task, chosen),
        "max_new_tokens": plan.max_new_tokens,
        "seed": plan.seed_of(task),
    }
    if plan.served:
        url, model = plan.served.of(baseline=chosen.rule.name == BASELINE)
        environment = {
            "app": __version__,
            "server": url,
            "concurrency": str(plan.served.load(task.repeat)),
        }
        return RunConfig(target=ModelRef(model), environment=environment, **settings)
    from mars_core.session import run_config  # imported here because it loads transformers

    assert session is not None
    return run_config(session.pair, **settings)


class LaneRun(NamedTuple):
    """A lane of a task. ``order``: its number among those of the task."""

    task: int
    lane: int
    order: int


@dataclass(slots=True)
class Talk:
    """The conversation of a lane, whose turns continue its answers. ``config``: of the next turn;
    ``rules``: of the turns, where they differ; ``traces``: of those that have ended; ``seconds``:
    their part of the time of a batch."""

    of: LaneRun
    config: RunConfig
    turns: Sequence[str]
    rules: Sequence[RuleConfig] = ()
    traces: list[Trace] = field(default_factory=list)
    seconds: float = 0.0

    def goes_on(self, trace: Trace) -> bool:
        """Add the trace of a turn; return whether another one follows. None does after a turn that
        is not completed."""
        self.traces.append(trace)
        number = len(self.traces)
        if number == len(self.turns) or trace.status is not Status.COMPLETED:
            return False
        prompt = self.config.prompt.then(answer(trace), self.turns[number])
        rule = self.rules[number] if self.rules else self.config.rule
        self.config = replace(self.config, prompt=prompt, rule=rule)
        return True


def converse(engine: LaneEngine, talk: Talk) -> Generator[int, None, None]:
    """Yields as ``LaneEngine.run``. Raises ValueError where a turn cannot be started."""
    while True:
        trace = yield from engine.run(talk.config)
        if trace is None or not talk.goes_on(trace):
            return
