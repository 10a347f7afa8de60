"""One lane on one item: every turn of the conversation, each with the lane's own answers before it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from evaluation.study.engine import Engine
from evaluation.study.plan import Plan, Task
from evaluation.study.result import answer
from mars_core.types import Exchange, RunConfig, Status, Trace

if TYPE_CHECKING:
    from mars_core.session import Session


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
