"""A study in a store, worked off through the store's methods; no model runs."""

from __future__ import annotations

from collections.abc import Callable

from evaluation.plan.lane import Lane
from evaluation.plan.plan import Plan
from evaluation.study.result import result_of
from evaluation.study.runner import relatives_of
from mars_core.types import DrafterConfig, ModelRef, RuleConfig, Status, Trace
from storage import RunStore

MODEL = DrafterConfig("model", ModelRef("demo/draft", "bundled"), 5)
LANES = (
    Lane(RuleConfig("none"), DrafterConfig("none")),
    Lane(RuleConfig("strict"), MODEL),
    Lane(RuleConfig("mars", {"theta": 0.9}), MODEL),
)


def save_study(
    store: RunStore,
    plan: Plan,
    turns: Callable[[int, int], list[Trace]],
    scores: Callable[[int, int], dict[str, float]] = lambda *_: {},
    tasks: int | None = None,
) -> str:
    """``turns``: the traces of a task in a lane; ``scores``: of them. ``tasks``: only so many."""
    study_id = store.new_study(plan.name, plan.as_dict(), plan.tasks)
    for task in store.open_tasks(study_id)[:tasks]:
        ran = [turns(task, lane) for lane in range(len(plan.lanes))]
        for lane, traces in enumerate(ran):
            result = result_of(traces, scores(task, lane))
            store.save_result(
                study_id, task, lane, traces, result.as_dict(), order=lane, worker="worker-1"
            )
        completed = {
            lane: traces for lane, traces in enumerate(ran) if traces[-1].status is Status.COMPLETED
        }
        store.finish_task(study_id, task, relatives_of(plan, completed))
    return study_id
