"""The verdicts of a report, as sentences and as a table, worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from evaluation.format import count, plural
from evaluation.report.document import tables
from evaluation.report.document.blocks import Block, Head, Listing, Paragraph, Section
from evaluation.report.document.cells import beside, margin, percent, probability
from evaluation.report.document.tables import Row, group_column, make_table
from evaluation.report.values import ALL, McNemar, Outcome, Report, Score, Verdict
from evaluation.study.plan import Plan

ORDER = (Outcome.NOT_SUPPORTED, Outcome.TOO_FEW, Outcome.SUPPORTED)
LISTED = 8  # settings in sentences; the table has all
LABEL = "Verdicts by rule, drafter, suite and temperature, worst first"
METRIC = (Head("Metric", "the first of the suite"), tables.METRIC[1])
COLUMNS = (
    tables.RULE, tables.DRAFTER, group_column(Head("Suite")), tables.TEMPERATURE, tables.VERDICT, tables.RECOVERY, tables.AMOUNT,
    tables.SCORE, tables.BASELINE_SCORE, tables.DIFFERENCE, tables.LOST, tables.TEST, tables.OVER_NONE, METRIC,
)  # fmt: skip


class Judged(NamedTuple):
    """A setting of the table with the score and the verdict of its main metric."""

    row: Row
    score: Score
    verdict: Verdict


def verdict_section(report: Report) -> Section:
    """Counts single suites only: the group of all suites would count everything twice."""
    lead = (
        f"A rule keeps the answers right where its recovery, the mean score over strict's on the same prompts, seeds and drafts, is at "
        f"least {margin(report.plan.margin)}; in the 95 % intervals the seeds of a prompt do not count as further prompts."
    )
    every = _judged(report)
    if not every:
        return Section("verdict", "Verdict", (Paragraph(_nothing(report.plan), "note"),), lead)
    single = [one for one in every if one.row.measured.group != ALL] or every
    blocks: list[Block] = [_summary(single)]
    sentences = [_sentence(one) for one in single if one.verdict.outcome is not Outcome.SUPPORTED]
    blocks += [Listing(tuple(sentences[:LISTED]), "verdicts")] if sentences else []
    return Section("verdict", "Verdict", (*blocks, make_table(LABEL, COLUMNS, [one.row for one in every])), lead)


def _judged(report: Report) -> list[Judged]:
    """Every setting of whole suites that has a verdict by its main metric, worst first."""
    found = [
        Judged(Row(one, report.plan.lanes[one.lane], score), score, score.verdict)
        for one in report.measured
        if one.group in report.whole_groups and (score := one.main_score) and score.verdict
    ]
    return sorted(found, key=_badness)


def _badness(one: Judged) -> tuple[int, float]:
    recovery = one.score.recovery.value
    return ORDER.index(one.verdict.outcome), math.inf if math.isnan(recovery) else recovery


def _summary(judged: Sequence[Judged]) -> Paragraph:
    """All verdicts in a sentence, bad news first."""
    amounts = Counter(one.verdict.outcome for one in judged)
    outcomes = ", ".join(f"{count(amounts[outcome])} {outcome}" for outcome in ORDER if amounts[outcome])
    tone = next(tone for outcome, tone in zip(ORDER, ("bad", "open", "good"), strict=True) if amounts[outcome])
    text = (
        f"Recovery ≥ {margin(judged[0].verdict.margin)} in {plural(len(judged), 'setting')} (rule × drafter × suite × temperature): "
        f"{outcomes}. Worst: {_name(judged[0].row)} with {beside(judged[0].score.recovery, percent)}."
    )
    return Paragraph(text, tone)


def _name(row: Row) -> str:
    """The setting: ``mars(theta=0.9), model K=5, gsm8k, T = 1``."""
    group = "all suites" if row.measured.group == ALL else row.measured.group
    return f"{row.lane.name}, {row.lane.drafts}, {group}, T = {row.measured.temperature:g}"


def _sentence(one: Judged) -> str:
    """The result of one setting, with tests and sample size."""
    row, score, test = one.row, one.score, one.score.mcnemar
    facts = [f"Recovery {beside(score.recovery, percent)}"]
    if test is not None:
        facts.append(f"{plural(test.lost, 'answer')} lost and {count(test.gained)} gained, {_tests(test)}")
    facts.append(f"{plural(row.measured.prompts, 'prompt')} × {plural(row.measured.seeds, 'seed')}")
    return f"{_name(row)}: {one.verdict.sentence}. {', '.join(facts)}."


def _tests(test: McNemar) -> str:
    """p values of McNemar's test and by prompt: with several seeds McNemar's test counts each as a separate prompt."""
    holm = "" if math.isnan(test.p_holm) else f" (Holm {_equals(test.p_holm)})"
    return f"McNemar p {_equals(test.p)}, by prompt p {_equals(test.p_by_prompt)}{holm}"


def _equals(p: float) -> str:
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"


def _nothing(plan: Plan) -> str:
    if any(suite.metrics for suite in plan.suites):
        return "No scored prompt has been completed by a rule and by strict yet, so there is no verdict."
    return "None of the suites has a metric, so there is no verdict; the texts are compared with strict's below."
