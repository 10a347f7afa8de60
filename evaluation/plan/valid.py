"""Refuses plans that cannot be run, in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evaluation.plan.lane import BASELINE, SHARPENED, Lane, in_range
from mars_core.numbers import MAX_LANES
from mars_core.rules import PLAIN, RULES
from mars_core.settings.table import LARGEST_SEED
from mars_core.types import SERVER

if TYPE_CHECKING:
    from evaluation.plan.plan import Plan

MAX_BATCH = 256
MAX_TASKS = 1_000_000


def check_plan(plan: Plan) -> None:
    """Raise ValueError, in one sentence, for a plan that cannot be run."""
    if not plan.suites:
        raise ValueError("The list of suites is empty; give at least one.")
    names = [suite.name for suite in plan.suites]
    for suite in plan.suites:
        if names.count(suite.name) > 1:
            raise ValueError(f"Two suites are called {suite.name!r}; each needs a different name.")
        if not suite.items:
            raise ValueError(f"The suite {suite.name!r} has no item; it needs at least 1.")
    _check_lanes(plan)
    loads = len(plan.served.concurrency) if plan.served else 1
    if not loads or plan.repeats % loads:
        seeds = f"The number of seeds is {plan.repeats}"
        raise ValueError(f"{seeds}; it must be a multiple of {loads}, the values of concurrency.")
    for batch in (plan.batch, *plan.loads):
        in_range("batch", batch, 1, 1 if plan.served else MAX_BATCH)
    if plan.loads and (sorted(set(plan.loads)) != [*plan.loads] or plan.loads[-1] != plan.batch):
        raise ValueError(f"The batches are {plan.loads}; each must be larger than the one before.")
    if not plan.temperatures:
        raise ValueError("The list of temperatures is empty; give at least one.")
    if len(set(plan.temperatures)) < len(plan.temperatures):
        raise ValueError("A temperature is listed twice; list each once.")
    for temperature in plan.temperatures:
        in_range("temperature", temperature, 0, 100)
    in_range("tasks (items × seeds × temperatures × batches)", plan.tasks, 1, MAX_TASKS)
    if plan.alone and plan.loads:
        raise ValueError(
            f"time_alone is {plan.alone}; with several batches it must be 0: one of them can be 1."
        )
    in_range("time_alone", plan.alone, 0, plan.tasks)
    if plan.served:
        in_range("interventions", plan.interventions, 0, 0)
    in_range("seed", plan.seed, 0, LARGEST_SEED - plan.repeats * plan.items)


def _check_lanes(plan: Plan) -> None:
    if len(set(map(repr, plan.lanes))) < len(plan.lanes):
        raise ValueError(
            "Two lanes are the same; each rule with its parameters and drafter may be used once."
        )
    in_range("lanes", len(plan.draws), 2, MAX_LANES)
    strict = [lane.drafter for lane in plan.lanes if lane.rule.name == BASELINE]
    if not strict:
        raise ValueError(
            f"{BASELINE} is not among the rules; every other rule is compared with it."
        )
    for lane in plan.lanes:
        if (lane.drafter.kind == SERVER) is not (plan.served is not None):
            raise ValueError(
                f"The drafter is {lane.drafter.kind!r}; it must be {SERVER!r} on a server and only "
                "there."
            )
        if lane.rule.name == SERVER and plan.served:
            continue
        if lane.rule.name == SHARPENED:
            in_range("scale of sharpened", lane.scale, 0.01, 0.99)
            if not min(plan.temperatures):
                raise ValueError(f"{lane.name} lowers a temperature; each must be above 0.")
            continue
        if lane.rule.name not in RULES:
            raise ValueError(
                f"The rule is {lane.rule.name!r}; it must be one of {', '.join(RULES)}."
            )
        RULES[lane.rule.name].values(lane.rule.parameters)
        if lane.rule.name != PLAIN and lane.drafter not in strict:
            raise ValueError(
                f"{lane.name} drafts with {lane.drafts}, and there is no {BASELINE} lane with that "
                "drafter."
            )
        if lane.imitates and Lane(lane.imitates, lane.drafter) not in plan.lanes:
            raise ValueError(f"{lane.name} imitates a rule that no lane with its drafter has.")
