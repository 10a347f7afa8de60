"""One lane on one item: every turn of the conversation, each with the lane's own answers before it. Knows no store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evaluation.study.plan import Plan, Task
from mars_core.jobs.comparison import RUN_FAILURES
from mars_core.types import Exchange, RunConfig, Status, StopReason, Trace

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


def converse(
    session: Session, first: RunConfig, turns: tuple[str, ...], each_step: Callable[[], Any]
) -> tuple[Trace, ...]:
    """The traces of all turns; the last one tells if the lane failed or was cancelled, and then no turn follows it.

    ``each_step`` is called after every step; what it raises ends the run. Raises ValueError where a turn cannot be started.
    """
    traces: list[Trace] = []
    history: tuple[Exchange, ...] = ()
    for turn in turns:
        run = session.start(replace(first, prompt=replace(first.prompt, text=turn, history=history)))
        with suppress(*RUN_FAILURES):  # its trace tells
            for _ in run:
                each_step()
        traces.append(run.trace())
        if traces[-1].status is not Status.COMPLETED:
            break
        history = (*history, Exchange(turn, answer(traces[-1])))
    return tuple(traces)


def answer(trace: Trace) -> str:
    """The text of a run without the stop string that ended it; one that is a special token is not in the text."""
    if trace.stop_reason is not StopReason.STOP_STRING:
        return trace.text
    ends = [trace.text.find(stop) for stop in trace.config.prompt.stop]
    return trace.text[: min((end for end in ends if end >= 0), default=None)]
