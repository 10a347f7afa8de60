"""A small stored study of made-up traces; no model runs."""

from __future__ import annotations

from evaluation.item import Item, Suite
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from mars_core.types import ModelRef, Status, Trace
from storage import RunStore
from tests.reports import HOSTILE
from tests.traces import make_trace
from tests.unit.evaluation.saved import LANES, MODEL, save_study

METRIC = "exact_match,none"


def stored_study(
    store: RunStore, *, tasks: int | None = None, name: str = "small <i>study</i>"
) -> str:
    """Two prompts, one hostile, × 2 seeds × 1 temperature in three lanes; one run of the rule
    failed. ``tasks``: only so many."""
    plan = small_plan(name)

    def turns(number: int, lane: int) -> list[Trace]:
        task = plan.task(number)
        return [
            make_trace(
                rule=plan.lanes[lane].rule.name,
                new_tokens=24,
                seed=plan.seed_of(task),
                prompt=plan.item(task).turns[0],
                status=Status.FAILED if (number, lane) == (3, 2) else Status.COMPLETED,
            )
        ]

    def scores(number: int, lane: int) -> dict[str, float]:
        return {METRIC: float(plan.task(number).item == 0 or lane < 2)}

    return save_study(store, plan, turns, scores, tasks)


def small_plan(name: str = "small") -> Plan:
    items = (
        Item("one", ("Tell me a story about a sunny day.",), ("sunny",), "tales"),
        Item(HOSTILE, (HOSTILE,), (HOSTILE,), "tales"),
    )
    models = Models("bundled", ModelRef("demo/target", "bundled"), MODEL.model)
    suites = (Suite("tales", items, metrics=(METRIC,)),)
    return Plan(name, models, suites, LANES, (1.0,), repeats=2, max_new_tokens=24)
