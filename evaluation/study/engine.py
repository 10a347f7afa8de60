"""Runs one lane on one item: each turn continues the lane's answers, in a session of this
process or on the page's accelerator.

``run`` yields the number of new tokens since the last yield and returns the trace; closing it ends
the run before its next step. It raises ValueError for an invalid configuration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from evaluation.plan.lane import BASELINE, SHARPENED
from evaluation.plan.plan import Plan, Task
from evaluation.study.events import LaneProgress
from evaluation.study.result import NAN, answer
from mars_core import __version__
from mars_core.jobs import RUN_FAILURES, Accelerator, Job, RecordedRun, Stop, Wrote, follow
from mars_core.models import PairSpec
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
    None where no other follows; ``rules``: of the turns, where they differ; ``traces``: of those
    that have ended; ``error``: why a turn could not be started; ``seconds``: their part of the time
    of a batch; ``strict``: that its traces are those of strict, which it would repeat."""

    of: LaneRun
    turns: Sequence[str]
    config: RunConfig | None = None
    rules: Sequence[RuleConfig] = ()
    traces: list[Trace] = field(default_factory=list)
    error: ValueError | None = None
    seconds: float = NAN
    strict: bool = False

    def add(self, trace: Trace) -> None:
        """Add the trace of a turn. No other follows one that is not completed."""
        assert self.config is not None
        self.traces.append(trace)
        number, before = len(self.traces), self.config
        self.config = None
        if number < len(self.turns) and trace.status is Status.COMPLETED:
            prompt = before.prompt.then(answer(trace), self.turns[number])
            rule = self.rules[number] if self.rules else before.rule
            self.config = replace(before, prompt=prompt, rule=rule)


def converse(
    engine: LaneEngine, talks: Iterable[Talk]
) -> Generator[LaneProgress | Talk, None, None]:
    """Yield every conversation when it has ended, one after the other, and its progress before."""
    for talk in talks:
        try:
            with closing(_turns(engine, talk)) as written:
                for tokens in accumulate(written):
                    yield LaneProgress(talk.of.task, talk.of.lane, tokens)
        except ValueError as error:  # the settings are invalid for this prompt
            talk.error = error
        yield talk


def _turns(engine: LaneEngine, talk: Talk) -> Generator[int, None, None]:
    while talk.config:
        trace = yield from engine.run(talk.config)
        if trace is None:
            return
        talk.add(trace)
