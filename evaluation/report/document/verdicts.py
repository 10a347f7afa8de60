"""The verdicts of a report: all in a sentence, and a table, worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from evaluation.format import count, first_few, percent, plural
from evaluation.recovery import RecoveryOutcome, RecoveryVerdict
from evaluation.report.document import tables
from evaluation.report.document.blocks import Block, Head, Paragraph, Section
from evaluation.report.document.cells import beside, margin
from evaluation.report.document.tables import LaneRow, group_column, make_table
from evaluation.report.values import ALL, Report
from evaluation.study.plan import Plan

UNFINISHED = (
    "No scored prompt has been completed by a rule and by strict yet, so there is no verdict."
)
UNSCORED = "None of the suites has a metric, so there is no verdict; the texts are compared with strict's below."
ORDER = (RecoveryOutcome.NOT_SUPPORTED, RecoveryOutcome.TOO_FEW, RecoveryOutcome.SUPPORTED)
NO_SIGNAL = (
    "the rule is no better than random relaxation of as many tokens in each text: its signal does "
    "not tell which to relax. Random's score over the rule's"
)
BETTER = (
    "the rule is better than random relaxation of as many tokens in each text. Random's score over "
    "the rule's"
)
RELAXED_NOTHING = "the rule relaxed no token"
CLAIMS = {NO_SIGNAL: "bad", BETTER: "good", RELAXED_NOTHING: "note"}
LABEL = "Verdicts by rule, drafter, suite and temperature, worst first"
METRIC = (Head("Metric", "the first of the suite"), tables.METRIC[1])
COLUMNS = (
    tables.RULE,
    tables.DRAFTER,
    group_column(Head("Suite")),
    tables.TEMPERATURE,
    tables.VERDICT,
    tables.RECOVERY,
    tables.PLACEBO,
    tables.AMOUNT,
    tables.SCORE,
    tables.BASELINE_SCORE,
    tables.DIFFERENCE,
    tables.LOST,
    tables.TEST,
    tables.OVER_NONE,
    METRIC,
)


def verdict_section(report: Report) -> Section:
    """Counts single suites only: the group of all suites would count everything twice."""
    lead = (
        "A rule keeps the answers right where its recovery, the mean score over strict's on the "
        f"same prompts, seeds and drafts, is at least {margin(report.plan.margin)}; in the 95 % "
        "intervals the seeds of a prompt do not count as further prompts."
    )
    first = _against_placebos(report)
    if every := _judged(report):
        single = [each for each in every if each.measured.group != ALL] or every
        blocks: tuple[Block, ...] = (
            _summary(single, report.plan),
            make_table(LABEL, COLUMNS, every),
        )
    else:
        scored = any(suite.metrics for suite in report.plan.suites)
        blocks = (Paragraph(UNFINISHED if scored else UNSCORED, "note"),)
    return Section("verdict", "Verdict", (*first, *blocks), lead)


def _against_placebos(report: Report) -> tuple[Paragraph, ...]:
    """Whether rules beat the lanes that imitate them, by the main metric of a suite; those that do
    not come first."""
    plan = report.plan
    rows = {(row.group, row.temperature, row.lane): row for row in report.measured}
    settings: dict[str, list[str]] = {claim: [] for claim in CLAIMS}
    for (group, temperature, lane), row in rows.items():
        placebo, ratio = plan.placebo(lane), row.main_score and row.main_score.placebo_ratio
        if placebo is None or not ratio or math.isnan(ratio.value):
            continue
        if group not in report.suite_groups or (group == ALL and len(plan.suites) > 1):
            continue
        setting = plan.setting(plan.lanes[lane], group, temperature)
        if row.relaxed_share.value == 0:
            settings[RELAXED_NOTHING].append(setting)
            continue
        settings[BETTER if ratio.high < 1 else NO_SIGNAL].append(
            f"{setting}: {beside(ratio, percent)}"
        )
    total = sum(map(len, settings.values()))
    return tuple(
        Paragraph(
            f"In {count(len(named))} of {plural(total, 'setting')} {claim}: {first_few(named)}.",
            CLAIMS[claim],
        )
        for claim, named in settings.items()
        if named
    )


def _judged(report: Report) -> list[LaneRow]:
    """Every setting of complete suites that has a verdict by its main metric, worst first."""
    judged: list[tuple[int, bool, float, LaneRow]] = []
    for one in report.measured:
        if one.group in report.suite_groups and (score := one.main_score) and score.verdict:
            recovery, row = score.recovery.value, LaneRow(one, report.plan.lanes[one.lane], score)
            judged.append((ORDER.index(score.verdict.outcome), math.isnan(recovery), recovery, row))
    return [row for *_, row in sorted(judged, key=lambda each: each[:3])]


def _summary(judged: Sequence[LaneRow], plan: Plan) -> Paragraph:
    """All verdicts in a sentence, bad news first."""
    verdicts = [
        (row.measured.prompts, row.score.verdict)
        for row in judged
        if row.score and row.score.verdict
    ]
    amounts = Counter(verdict.outcome for _, verdict in verdicts)
    few = _too_few([each for each in verdicts if each[1].outcome is RecoveryOutcome.TOO_FEW])
    names = {each: each.value for each in ORDER} | {RecoveryOutcome.TOO_FEW: f"not decided ({few})"}
    outcomes = ", ".join(f"{count(amounts[each])} {names[each]}" for each in ORDER if amounts[each])
    tone = next(
        tone
        for outcome, tone in zip(ORDER, ("bad", "open", "good"), strict=True)
        if amounts[outcome]
    )
    measured, lane, score = judged[0]
    recovery = beside(score.recovery, percent) if score else ""
    group = "all suites" if measured.group == ALL else measured.group
    claim = f"recovery ≥ {margin(plan.margin)} in {plural(len(judged), 'setting')} (rule × drafter × suite × temperature)"
    undecided = len(verdicts) == amounts[RecoveryOutcome.TOO_FEW]
    answer = (
        f"Not decided: {few}, for {claim}" if undecided else f"{claim.capitalize()}: {outcomes}"
    )
    worst = plan.setting(lane, group, measured.temperature)
    return Paragraph(f"{answer}. Worst: {worst} with {recovery}.", tone)


def _too_few(verdicts: Sequence[tuple[int, RecoveryVerdict]]) -> str:
    """``10 prompts, about 190 needed``: the least number and the largest need, where one is known."""
    prompts = plural(min((amount for amount, _ in verdicts), default=0), "prompt")
    needed = max((verdict.needed or 0 for _, verdict in verdicts), default=0)
    known = f"about {count(needed)} needed" if needed else "the number needed is not known"
    return f"{prompts}, {known}"
