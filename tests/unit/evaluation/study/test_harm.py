"""A rule that is set to harm is caught by the verdict of a small study."""

from __future__ import annotations

from collections import deque

from evaluation.report.measure import measure
from evaluation.report.values import Outcome
from evaluation.study.engine import InProcess
from evaluation.study.plan import Lane, Models, Plan
from evaluation.study.processes import own_name
from evaluation.study.worker import Worker
from evaluation.suites.read import read_suite
from mars_core.models import CATALOG, ModelPool
from mars_core.session import Session
from mars_core.types import DrafterConfig, RuleConfig
from storage import RunStore

KEEPS_ALL = RuleConfig("topk-delta", {"n": 1000, "delta": 1.0})


def test_a_rule_that_keeps_everything_is_not_supported(store: RunStore) -> None:
    session = Session(ModelPool(device="cpu", dtype="float32").get(CATALOG[0]))
    drafter = DrafterConfig("model", None, 5)
    pair = session.pair
    plan = Plan(
        name="harm",
        models=Models(pair.spec.key, pair.target_ref, pair.draft_ref, pair.head_ref),
        suites=(read_suite("demo_arithmetic", 12),),
        lanes=(Lane(RuleConfig("strict"), drafter), Lane(KEEPS_ALL, drafter)),
        max_new_tokens=120,
    )
    study = store.new_study(plan.name, plan.as_dict(), plan.tasks)
    deque(Worker(store, study, plan, session, InProcess(session), own_name()).events())
    strict, harmed = measure(store, study).measured
    (score, *_) = harmed.scores.values()
    assert score.verdict is not None
    assert score.verdict.outcome is Outcome.NOT_SUPPORTED
    assert harmed.tau.value > strict.tau.value
    assert harmed.tv.value > 0 == strict.tv.value
    assert next(iter(strict.scores.values())).value.value == 1
