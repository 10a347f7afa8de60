"""A small stored study of made-up traces, worked off through the store's own methods; no model
runs."""

from __future__ import annotations

from evaluation.item import Item, Suite
from evaluation.study.plan import Lane, Models, Plan
from evaluation.study.result import LaneResult, Relative
from mars_core.telemetry import first_divergence
from mars_core.types import DrafterConfig, ModelRef, RuleConfig, Status, Trace
from storage import RunStore
from tests.reports import HOSTILE
from tests.traces import make_trace

METRIC = "exact_match,none"
MODEL = DrafterConfig("model", ModelRef("demo/draft", "bundled"), 5)
RULES = ("none", "strict", "mars")


def stored_study(
    store: RunStore, *, tasks: int | None = None, name: str = "small <i>study</i>"
) -> str:
    """Two prompts, one hostile, × 2 seeds × 1 temperature in three lanes; one run of the rule
    failed. ``tasks``: only so many."""
    plan = small_plan(name)
    study_id = store.new_study(plan.name, plan.as_dict(), plan.tasks)
    for _ in range(plan.tasks if tasks is None else tasks):
        claim = store.claim_task(study_id, "worker-1", 60.0)
        assert claim is not None
        task = plan.task(claim.task)
        traces = [_trace(plan, rule, claim.task) for rule in RULES]
        for lane, trace in enumerate(traces):
            store.save_result(
                claim,
                lane,
                [trace],
                _result(trace, task.item == 0 or lane < 2).as_dict(),
                order=lane,
            )
        store.finish_task(claim, {lane: _relative(traces, lane).as_dict() for lane in (0, 2)})
    return study_id


def small_plan(name: str = "small") -> Plan:
    items = (
        Item("one", ("Tell me a story about a sunny day.",), ("sunny",), "tales"),
        Item(HOSTILE, (HOSTILE,), (HOSTILE,), "tales"),
    )
    lanes = (
        Lane(RuleConfig("none"), DrafterConfig("none")),
        Lane(RuleConfig("strict"), MODEL),
        Lane(RuleConfig("mars", {"theta": 0.9}), MODEL),
    )
    models = Models("bundled", ModelRef("demo/target", "bundled"), MODEL.model)
    return Plan(
        name,
        models,
        (Suite("tales", items, metrics=(METRIC,)),),
        lanes,
        (1.0,),
        repeats=2,
        max_new_tokens=24,
    )


def _trace(plan: Plan, rule: str, number: int) -> Trace:
    task = plan.task(number)
    status = Status.FAILED if (rule, number) == ("mars", 3) else Status.COMPLETED
    return make_trace(
        rule=rule,
        new_tokens=24,
        seed=plan.seed_of(task),
        prompt=plan.item(task).turns[0],
        status=status,
    )


def _result(trace: Trace, right: bool) -> LaneResult:
    summary = trace.summary
    return LaneResult(
        trace.status,
        trace.error,
        1,
        True,
        summary.prompt_tokens,
        summary.new_tokens,
        len(trace.text),
        summary.steps,
        summary.drafted,
        summary.accepted,
        summary.relaxed,
        summary.wall_s,
        summary.prefill_s,
        summary.draft_s,
        summary.verify_s,
        summary.tv_sum,
        summary.tv_max,
        summary.kl_sum,
        summary.log_likelihood,
        (3, 2),
        (2, 1),
        {METRIC: float(right)},
    )


def _relative(traces: list[Trace], lane: int) -> Relative:
    divergence = first_divergence(traces[1], traces[lane])
    cause = str(divergence.cause) if divergence else ""
    return Relative(
        divergence is None,
        lane != 2 or None,
        divergence.position if divergence else None,
        cause,
        0.5,
        0.6,
        0.7,
    )
