"""A realistic report without a run: 2 suites (one with categories), 2 temperatures, 11 lanes of 2
drafters, hostile texts."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime

from evaluation.item import Item, Suite
from evaluation.recovery import RecoveryOutcome, RecoveryVerdict
from evaluation.report.values import ALL, Measured, PromptRow, Report, Score, VoteRow
from evaluation.statistics import Interval, McNemar
from evaluation.study.plan import Lane, Models, Plan
from mars_core.types import DrafterConfig, ModelRef, RuleConfig, TreeShape

EXACT, FLEXIBLE, BLEU = "exact_match,strict-match", "exact_match,flexible-extract", "bleu,none"
HOSTILE = '</td><script>alert(1)</script> | `x` **b** [a](javascript:alert(2)) \u202e\x00\ud800 <img src=x onerror="alert(3)">'
MODEL = DrafterConfig("model", ModelRef("demo/draft", "bundled"), 5)
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
WARNINGS = (
    "mars(theta=0.84) with model K=5 keeps more and writes longer: its texts are 1.09× [1.04, 1.15] as long as strict's on gsm8k at "
    "T = 1; judge its speed-up by the time of a whole answer too.",
    "64 comparisons with a baseline were tested; after Holm's correction 3 of them differ at 5 %.",
)
_LOSS = {"none": 0.0, "strict": 0.0, "typical": 0.012}
_FASTER = {"strict": 1.9, "typical": 2.1}


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


def make_report(*, votes: bool = True, done: int | None = None) -> Report:
    plan = make_plan()
    groups = ("gsm8k", "news", "news/de-en", "news/zh-en", ALL)
    measured = tuple(
        _measured(plan, group, temperature, lane)
        for group in groups
        for temperature in plan.temperatures
        for lane in range(len(plan.lanes))
    )
    return Report(
        id="0123456789abcdef0123456789abcdef",
        plan=plan,
        created_at=datetime(2026, 11, 21, 9, 30, tzinfo=UTC),
        tasks_done=plan.tasks if done is None else done,
        results=(plan.tasks if done is None else done) * len(plan.lanes),
        environment=ENVIRONMENT,
        measured=measured,
        prompts=_prompts(plan),
        warnings=WARNINGS,
        votes=(VoteRow("mars(theta=0.9)", 12, 9, 5, Interval(12 / 21, 0.366, 0.755)),)
        if votes
        else (),
        judged=(VoteRow("mars(theta=0.9)", 31, 29, 40, Interval(31 / 60, 0.393, 0.638)),)
        if votes
        else (),
    )


def _about(value: float, half: float) -> Interval:
    return Interval(value, value - half, value + half)


def _loosening(lane: Lane) -> float:
    """How far a rule goes, 0 to 0.2."""
    return 1 - lane.rule.parameters["theta"] if lane.rule.name == "mars" else _LOSS[lane.rule.name]


def _measured(plan: Plan, group: str, temperature: float, number: int) -> Measured:
    lane = plan.lanes[number]
    rng = random.Random(f"{group}/{temperature}/{number}")
    loose, none, base = _loosening(lane), plan.none == number, plan.baseline(number) is None
    prompts = {"gsm8k": 40, "news": 40, "news/de-en": 20, "news/zh-en": 20, ALL: 80}[group]
    wide = 0.5 / math.sqrt(prompts)
    speed = 1.0 if none else _FASTER.get(lane.rule.name, 1.9 + 3 * loose) + rng.uniform(-0.05, 0.05)
    tau = 1.0 if none else 3.2 + 6 * loose + (0.4 if lane.drafter.kind == "eagle3" else 0.0)
    one = Interval(1.0, 1.0, 1.0)
    blank = Interval()
    return Measured(
        group=group,
        temperature=temperature,
        lane=number,
        prompts=prompts,
        seeds=3,
        runs=3 * prompts - (number == 3),
        failed=int(number == 3),
        tokens_per_s=_about(310 * speed, 20 * speed),
        speedup=one if none else _about(speed, 0.4 * wide),
        speedup_mean=one if none else _about(1.02 * speed, 0.5 * wide),
        speedup_strict=one if base else _about(speed / 1.9, 0.3 * wide),
        speedup_strict_mean=one if base else _about(1.01 * speed / 1.9, 0.3 * wide),
        tau=_about(tau, wide),
        tau_ratio=one if base else _about(tau / 3.3, 0.2 * wide),
        acceptance_rate=blank if none else _about(0.55 + loose, 0.02),
        acceptance_by_position=()
        if none
        else tuple(
            0.8 * (0.85 + loose / 4) ** at for at in range(5 + (lane.drafter.tree is not None))
        ),
        relaxed_share=blank if none else _about(loose / 2, 0.01),
        length_ratio=one if base else _about(1 + loose / 2, 0.2 * wide),
        unended=_about(0.02, 0.01),
        same=blank if base else _about(1 - 3 * loose if loose < 0.3 else 0.1, 0.04),
        same_as_none=blank if none else _about(0.9 - 3 * loose, 0.04),
        divergence=blank if loose == 0 else Interval(31.0, 12.0, 55.0),
        bleu=blank if base else _about(1 - 2 * loose, 0.03),
        chrf=blank if base else _about(1 - loose, 0.03),
        rouge_l=blank if base else _about(1 - 1.5 * loose, 0.03),
        tv=_about(9 * loose, 0.3),
        tv_token=_about(loose / 6, 0.01),
        log_likelihood=_about(-0.61 - loose / 3, 0.02),
        log_likelihood_difference=blank if base else _about(-loose / 3, 0.01),
        scores=_scores(plan, group, number, loose, wide, rng),
    )


def _scores(
    plan: Plan, group: str, number: int, loose: float, wide: float, rng: random.Random
) -> dict[str, Score]:
    if group == ALL:
        return {}
    metrics = plan.suites[0 if group == "gsm8k" else 1].metrics
    return {metric: _score(plan, metric, number, loose, wide, rng) for metric in metrics}


def _score(
    plan: Plan, metric: str, number: int, loose: float, wide: float, rng: random.Random
) -> Score:
    base, none = plan.baseline(number) is None, plan.none == number
    share = 1 - 0.6 * loose + rng.uniform(-0.01, 0.01)
    baseline = _about(0.81, wide)
    binary = metric != BLEU
    recovery = Interval(1.0, 1.0, 1.0) if base else _about(share, 0.4 * wide)
    return Score(
        metric=metric,
        binary=binary,
        runs=120,
        value=_about(0.81 * share, wide),
        baseline=baseline,
        recovery=recovery,
        recovery_none=_about(share, 0.4 * wide),
        recovery_bootstrap=_about(share, 0.42 * wide),
        difference=_about(0.81 * (share - 1), 0.4 * wide),
        mcnemar=_mcnemar(loose) if binary and not base else None,
        verdict=None if base or none else _verdict(plan.margin, recovery),
    )


def _mcnemar(loose: float) -> McNemar:
    return McNemar(
        3,
        3 + round(60 * loose),
        max(1e-6, 0.9 - 9 * loose),
        max(0.0005, 0.92 - 9 * loose),
        min(1.0, 2 - 18 * loose),
    )


def _verdict(margin: float, recovery: Interval) -> RecoveryVerdict:
    words = f"recovery ≥ {100 * margin:g} %"
    if recovery.low >= margin:
        return RecoveryVerdict(margin, RecoveryOutcome.SUPPORTED, None, f"{words}: supported")
    if recovery.high < margin:
        return RecoveryVerdict(
            margin, RecoveryOutcome.NOT_SUPPORTED, None, f"{words}: not supported"
        )
    return RecoveryVerdict(
        margin, RecoveryOutcome.TOO_FEW, 240, f"{words}: too few prompts, need about 240"
    )


def _prompts(plan: Plan) -> tuple[PromptRow, ...]:
    rows = []
    for suite in plan.suites:
        for rank, item in enumerate(reversed(suite.items)):
            lane = 2 + (rank % 3)
            runs = (f"{2 * len(rows):032x}", f"{2 * len(rows) + 1:032x}")
            lost = max(0.0, 3 - rank / 4)
            rows.append(
                PromptRow(
                    suite.name,
                    item.category,
                    item.id,
                    item.turns[0],
                    1.0,
                    lane,
                    3,
                    3 - rank % 3,
                    0.0 if rank else 1.0,
                    lost,
                    7 + rank,
                    4.0 - rank / 20,
                    1.2,
                    runs,
                )
            )
    return tuple(sorted(rows, key=lambda row: -row.lost))


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
