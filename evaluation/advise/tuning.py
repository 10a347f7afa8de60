"""Divides the prompts of a plan into a tuning part and those of the study, and decodes the former.
What is decoded here is not saved: it decides the lanes of a study, whose plan has the results."""

from __future__ import annotations

import random
from collections.abc import Collection, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from evaluation.plan.plan import Plan
from evaluation.study.engine import InProcess, LaneEngine
from evaluation.study.events import LaneEnded, LaneProgress
from evaluation.study.runner import Runner

if TYPE_CHECKING:
    from mars_core.session import Session

LEAST, MOST = 4, 64  # prompts of the tuning part


def shuffled(plan: Plan) -> list[int]:
    """Return the numbers of all items over all suites, in an order that depends on the seed only:
    any beginning of it is a random sample."""
    return random.Random(plan.seed).sample(range(plan.items), plan.items)


def divided(plan: Plan, share: float) -> tuple[Plan, Plan]:
    """Divide it into a tuning part of about that share of the prompts, chosen at random, and the
    others. Raises ValueError for too few prompts."""
    amount = min(MOST, max(LEAST, round(share * plan.items)))
    if plan.items <= amount:
        raise ValueError(
            f"The suites have {plan.items} prompts; at least {amount + 1} are needed, "
            f"as {amount} are used to choose the settings."
        )
    chosen = frozenset(shuffled(plan)[:amount])
    tuning = _part(replace(plan, alone=0), chosen)
    return tuning, _part(plan, frozenset(range(plan.items)) - chosen)


def _part(plan: Plan, numbers: Collection[int]) -> Plan:
    suites, first = [], 0
    for suite in plan.suites:
        items = tuple(item for number, item in enumerate(suite.items, first) if number in numbers)
        first += len(suite.items)
        suites += [replace(suite, items=items)] if items else []
    return replace(plan, suites=tuple(suites), alone=min(plan.alone, len(numbers) * plan.repeats))


def decoded(plan: Plan, session: Session, lanes: Collection[int]) -> Mapping[int, list[LaneEnded]]:
    """Decode these lanes on all prompts, by lane. Raises ValueError where one fails."""
    ended: dict[int, list[LaneEnded]] = {lane: [] for lane in lanes}
    for event in decoding(plan, session, InProcess(session), lanes):
        if isinstance(event, LaneEnded):
            ended[event.lane].append(event)
    return ended


def decoding(
    plan: Plan, session: Session, engine: LaneEngine, lanes: Collection[int]
) -> Generator[LaneProgress | LaneEnded, None, None]:
    """Decode as ``decoded``. Raises Stopped too."""
    runner = Runner(plan, session, engine, plan.batch)
    others = {lane: () for lane in range(len(plan.lanes)) if lane not in lanes}
    for first in range(0, plan.tasks, runner.chunk):
        tasks = range(first, min(first + runner.chunk, plan.tasks))
        with closing(runner.run(dict.fromkeys(tasks, others))) as events:
            for event in events:
                if isinstance(event, LaneEnded) and event.result.error:
                    raise ValueError(f"{plan.lanes[event.lane].name}: {event.result.error}")
                if isinstance(event, LaneProgress | LaneEnded):
                    yield event
