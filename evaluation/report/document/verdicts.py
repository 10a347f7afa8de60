"""The verdicts of a report: all in a sentence, and a table, worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from evaluation.format import count, plural
from evaluation.report.document import tables
from evaluation.report.document.blocks import Head, Paragraph, Section
from evaluation.report.document.cells import beside, margin, percent
from evaluation.report.document.tables import Row, group_column, make_table
from evaluation.report.values import ALL, Outcome, Report, Score, Verdict
from evaluation.study.plan import Plan

ORDER = (Outcome.NOT_SUPPORTED, Outcome.TOO_FEW, Outcome.SUPPORTED)
LABEL = "Verdicts by rule, drafter, suite and temperature, worst first"
METRIC = (Head("Metric", "the first of the suite"), tables.METRIC[1])
COLUMNS = (
    tables.RULE, tables.DRAFTER, group_column(Head("Suite")), tables.TEMPERATURE, tables.VERDICT, tables.RECOVERY, tables.AMOUNT,
    tables.SCORE, tables.BASELINE_SCORE, tables.DIFFERENCE, tables.LOST, tables.TEST, tables.OVER_NONE, METRIC,
)  # fmt: skip


def verdict_section(report: Report) -> Section:
    """Counts single suites only: the group of all suites would count everything twice."""
    lead = (
        f"A rule keeps the answers right where its recovery, the mean score over strict's on the same prompts, seeds and drafts, is at "
        f"least {margin(report.plan.margin)}; in the 95 % intervals the seeds of a prompt do not count as further prompts."
    )
    every = _judged(report)
    if not every:
        return Section("verdict", "Verdict", (Paragraph(_nothing(report.plan), "note"),), lead)
    single = [row for row in every if row.measured.group != ALL] or every
    return Section("verdict", "Verdict", (_summary(single), make_table(LABEL, COLUMNS, every)), lead)


def _judged(report: Report) -> list[Row]:
    """Every setting of whole suites that has a verdict by its main metric, worst first."""
    whole, lanes = report.whole_groups, report.plan.lanes
    rows = [Row(one, lanes[one.lane], one.main_score) for one in report.measured if one.group in whole]
    return sorted((row for row in rows if row.score and row.score.verdict), key=_badness)


def _badness(row: Row) -> tuple[int, float]:
    recovery = _score(row).recovery.value
    return ORDER.index(_verdict(row).outcome), math.inf if math.isnan(recovery) else recovery


def _score(row: Row) -> Score:
    assert row.score is not None
    return row.score


def _verdict(row: Row) -> Verdict:
    verdict = _score(row).verdict
    assert verdict is not None
    return verdict


def _summary(rows: Sequence[Row]) -> Paragraph:
    """All verdicts in a sentence, bad news first."""
    amounts = Counter(_verdict(row).outcome for row in rows)
    outcomes = ", ".join(f"{count(amounts[outcome])} {outcome}" for outcome in ORDER if amounts[outcome])
    tone = next(tone for outcome, tone in zip(ORDER, ("bad", "open", "good"), strict=True) if amounts[outcome])
    text = (
        f"Recovery ≥ {margin(_verdict(rows[0]).margin)} in {plural(len(rows), 'setting')} (rule × drafter × suite × temperature): "
        f"{outcomes}. Worst: {_name(rows[0])} with {beside(_score(rows[0]).recovery, percent)}."
    )
    return Paragraph(text, tone)


def _name(row: Row) -> str:
    """The setting: ``mars(theta=0.9), model K=5, gsm8k, T = 1``."""
    group = "all suites" if row.measured.group == ALL else row.measured.group
    return f"{row.lane.name}, {row.lane.drafts}, {group}, T = {row.measured.temperature:g}"


def _nothing(plan: Plan) -> str:
    if any(suite.metrics for suite in plan.suites):
        return "No scored prompt has been completed by a rule and by strict yet, so there is no verdict."
    return "None of the suites has a metric, so there is no verdict; the texts are compared with strict's below."
