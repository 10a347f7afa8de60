"""A report of drawn results: 2 suites (one with categories), 2 temperatures, 11 lanes of 2 drafters,
hostile texts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from evaluation.item import Item
from evaluation.plan.lane import Lane
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from evaluation.report.measure import measure
from evaluation.report.rows import VoteRow
from evaluation.report.values import Report
from evaluation.statistics import Interval
from mars_core.types import DrafterConfig, ModelRef, RuleConfig, TreeShape
from tests.unit.evaluation.report.drawn import FakeStore, drawn_results, study_plan
from tests.unit.evaluation.saved import MODEL

EXACT = "exact_match,strict-match"
HOSTILE = '</td><script>alert(1)</script> | `x` **b** [a](javascript:alert(2)) \u202e\x00\ud800 <img src=x onerror="alert(3)">'
EAGLE = DrafterConfig("eagle3", ModelRef("demo/eagle3", "bundled"), tree=TreeShape(12, 6, 2))
RULES = (
    RuleConfig("strict"),
    *(RuleConfig("mars", {"theta": theta}) for theta in (0.84, 0.9, 0.96)),
    RuleConfig("typical", {"epsilon": 0.3, "delta": 0.09}),
)
LANES = (
    Lane(RuleConfig("none"), DrafterConfig("none")),
    *(Lane(rule, drafter) for drafter in (MODEL, EAGLE) for rule in RULES),
)
ENVIRONMENT = {
    "app": "0.1.0",
    "python": "3.11.7",
    "torch": "2.13.0",
    "device": "cpu",
    "dtype": "float32",
    "threads": "2",
}
LOSES = {
    "mars(theta=0.84)": 0.3,
    "mars(theta=0.9)": 0.04,
    "mars(theta=0.96)": 0.02,
    LANES[5].name: 0.012,
}


def make_plan() -> Plan:
    """The drawn study with two drafters, a second metric, and a name and a prompt that would like to
    be markup."""
    sums, stories = study_plan().suites
    hostile = Item(f"sum {HOSTILE}", (HOSTILE,), (HOSTILE,), "small")
    metrics = EXACT, *sums.metrics
    items = *sums.items[:-1], hostile
    suites = replace(sums, items=items, source="<sums>.jsonl", metrics=metrics), stories
    models = Models(
        "bundled",
        *(ModelRef(f"demo/{name}", "bundled") for name in ("target", "draft", "eagle3")),
    )
    changed: dict[str, Any] = {"models": models, "lanes": LANES, "max_new_tokens": 64}
    return study_plan(name="bundled <b>pair</b>", suites=suites, **changed)


@cache
def make_report() -> Report:
    """One run failed; the hostile prompt is the worst."""
    plan = make_plan()
    results = drawn_results(plan, loses=LOSES)
    results[3] = replace(results[3], data=results[3].data | {"status": "failed"}, relative=None)
    environment = dict.fromkeys(("w0", "w1"), ENVIRONMENT)
    store: Any = FakeStore(plan, results, environment)
    report = measure(store, "0123456789abcdef0123456789abcdef")
    people = VoteRow("mars(theta=0.9)", 12, 9, 5, Interval(12 / 21, 0.366, 0.755))
    judge = VoteRow("mars(theta=0.9)", 31, 29, 40, Interval(31 / 60, 0.393, 0.638))
    return replace(
        report,
        prompts=tuple(sorted(report.prompts, key=lambda row: row.prompt != HOSTILE[:160])),
        votes=(people,),
        judged=(judge,),
    )


def bare(report: Report) -> Report:
    """The same study before anything was measured."""
    return replace(
        report,
        tasks_done=0,
        results=0,
        measured=(),
        prompts=(),
        warnings=(),
        votes=(),
        judged=(),
        environment={},
    )
