"""A report of drawn results: 2 suites (one with categories), 2 temperatures, 11 lanes of 2 drafters,
hostile texts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from evaluation.item import Item, Suite
from evaluation.plan.lane import Lane
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from evaluation.report.measure import measure
from evaluation.report.rows import VoteRow
from evaluation.report.values import Report
from evaluation.statistics import Interval
from mars_core.types import DrafterConfig, ModelRef, RuleConfig, TreeShape
from tests.unit.evaluation.report.drawn import FakeStore, drawn_results
from tests.unit.evaluation.saved import MODEL

EXACT, FLEXIBLE, BLEU = "exact_match,strict-match", "exact_match,flexible-extract", "bleu,none"
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


def make_plan(prompts: int = 40) -> Plan:
    """40 problems of gsm8k, 40 texts of two languages; a name and a prompt that would like to be
    markup."""
    sums = tuple(
        Item(
            f"gsm8k/{number}",
            (f"Mia has {number} apples and buys {number + 3} more. How many has she?",),
            (f"#### {2 * number + 3}",),
        )
        for number in range(prompts - 1)
    )
    hostile = Item(f"gsm8k/{HOSTILE}", (HOSTILE,), (HOSTILE,))
    texts = tuple(
        Item(
            f"news/{number}",
            (f"Translate sentence {number} into English.",),
            ("The garden is old.",),
            ("de-en", "zh-en")[number % 2],
        )
        for number in range(prompts)
    )
    suites = (
        Suite("gsm8k", (*sums, hostile), "data/gsm8k.jsonl", "ab" * 32, (EXACT, FLEXIBLE)),
        Suite("news", texts, "data/<news>.jsonl", "cd" * 32, (BLEU,)),
    )
    models = Models(
        "bundled",
        ModelRef("demo/target", "bundled"),
        ModelRef("demo/draft", "bundled"),
        ModelRef("demo/eagle3", "bundled"),
    )
    return Plan(
        "bundled <b>pair</b>",
        models,
        suites,
        LANES,
        (0.0, 1.0),
        repeats=3,
        max_new_tokens=64,
        stop=("###",),
    )


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
