"""The verdicts of a report, worst first, and what a right answer costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from display.blocks import Block, Paragraph, ReportTable, Section
from display.format import plural
from evaluation.plan.plan import Plan
from evaluation.recovery import (
    LEAST_PROMPTS,
    PlaceboOutcome,
    RecoveryOutcome,
    right_answers_needed,
)
from evaluation.report.document.cells import margin
from evaluation.report.document.rows import row_table
from evaluation.report.document.tables import COSTS, SETTING, LaneRow, lane_rows, make_table
from evaluation.report.measured import PLACEBOS
from evaluation.report.rows import TWO_BEST
from evaluation.report.values import Report

UNFINISHED = (
    "No scored prompt has been completed by a rule and by strict yet, so there is no verdict."
)
UNSCORED = "None of the suites has a metric, so there is no verdict; the texts are compared with strict's below."
ORDER = (RecoveryOutcome.NOT_SUPPORTED, RecoveryOutcome.TOO_FEW, RecoveryOutcome.SUPPORTED)
PLACEBOS_LABEL = "Rules beside random relaxation of as many tokens"
PLACEBOS_NOTE = (
    "In each text as many of the rejections that may be relaxed as the rule relaxed there, drawn "
    "without replacement: among all, which asks whether the rule selects at all, and for rules "
    "that admit only the two best tokens among rejections of these, which asks whether its "
    "threshold selects beyond the rank. Scores and counts are means of the draws. Shortfall: what "
    "was still due where the text ended first, which is in random's favour. Equivalent: the rule's "
    "signal does not tell which of these to relax. Possible: the largest difference that is not "
    "excluded. p: that scores are equal, and that they differ by more than the region of "
    "equivalence, with Holm's correction over all these comparisons; below "
    f"{LEAST_PROMPTS} prompts nothing is decided."
)
TENTH = 0.1  # of the right answers, for a number of prompts
LABEL_OF_COSTS = "What a right answer costs, and runs without one"
REASONING = ("reasoning_right", "answer_right", "reasoning_s_right")
LABEL = "Verdicts by rule, drafter, suite and temperature, worst first"
COLUMNS = (
    *("rule", "drafter", "group", "temperature", "verdict", "recovery", "templates"),
    *("amount", "score", "baseline", "difference", "lost", "test", "over_none", "metric"),
)


def verdict_section(report: Report) -> Section:
    lead = (
        "A rule keeps the answers right where its recovery, the mean score over strict's on the "
        f"same prompts, seeds and drafts, is at least {margin(report.plan.margin)}; in the 95 % "
        "intervals the seeds of a prompt do not count as further prompts."
    )
    first = _against_placebos(report)
    meters = _meters(report)
    if every := _judged(report):
        open_ = any(row.score and row.score.verdict is RecoveryOutcome.TOO_FEW for row in every)
        needed = [Paragraph(prompts_needed(report.plan), "open")] if open_ else []
        blocks: tuple[Block, ...] = (*needed, *meters, make_table(LABEL, COLUMNS, every))
    else:
        scored = any(suite.metrics for suite in report.plan.suites)
        blocks = (Paragraph(UNFINISHED if scored else UNSCORED, "note"), *meters)
    return Section("verdict", "Verdict", (*first, *blocks), lead)


def _meters(report: Report) -> Iterator[ReportTable]:
    """Tabulate what an answer costs in each complete suite. Where no model reasons, nothing of
    that."""
    rows = [
        row
        for row in lane_rows(report)
        if row.measured.runs
        and row.measured.group in report.suite_groups
        and not row.lane.is_control
    ]
    thinks = any(row.measured.reasoning_right.value > 0 for row in rows)
    columns = (name for name in COSTS if thinks or name not in REASONING)
    if rows:
        yield make_table(LABEL_OF_COSTS, (*SETTING, "score", *columns), rows)


def _against_placebos(report: Report) -> Iterator[ReportTable]:
    """Tabulate the placebos in complete suites: first those that ask whether rules select at all,
    then whether they do beyond the rank. What is not better comes first."""
    order = [*PlaceboOutcome, ""]
    rows = [row for row in report.placebos if row.group in report.plan.suite_names]
    rows.sort(key=lambda row: (row.among == TWO_BEST, order.index(row.outcome)))
    if rows:
        yield replace(row_table(report.plan, PLACEBOS_LABEL, rows), note=PLACEBOS_NOTE)


def comparisons(plan: Plan) -> int:
    """Count those with random relaxation: rules × drafters × suites × temperatures × kinds of
    it."""
    kinds = product(range(len(plan.lanes)), PLACEBOS.values())
    lanes = sum(bool(plan.placebos(lane, ranked=ranked)) for lane, ranked in kinds)
    return lanes * len(plan.suites) * len(plan.temperatures)


def prompts_needed(plan: Plan) -> str:
    """Say what the verdicts of a study take, whatever its results: the same sentence before its
    start and beside them."""
    recovery, family = f"Recovery ≥ {margin(plan.margin)}", comparisons(plan)
    least, tenth = (right_answers_needed(1 - plan.margin, differ) for differ in (0, TENTH))
    if math.isinf(least):
        return f"{recovery} cannot be shown by any number of prompts."
    sentence = (
        f"{recovery} takes {least:,.0f} prompts that strict answers right if none is lost, "
        f"about {round(tenth, -1):,.0f} if one in ten answers differs"
    )
    if family:
        least, tenth = (
            right_answers_needed(plan.equivalence, differ, sides=2, comparisons=family)
            for differ in (0, TENTH)
        )
        sentence += (
            f"; equivalence to random within ± {margin(plan.equivalence)} in "
            f"{plural(family, 'comparison')} {least:,.0f} and {round(tenth, -1):,.0f}"
        )
    return f"{sentence}."


def _judged(report: Report) -> list[LaneRow]:
    """Return every setting of complete suites that has a verdict by its main metric, worst
    first."""

    def badness(row: LaneRow) -> tuple[int, bool, float]:
        assert row.score and row.score.verdict
        recovery = row.score.recovery.value
        return ORDER.index(row.score.verdict), math.isnan(recovery), recovery

    judged = (row for row in lane_rows(report) if row.score and row.score.verdict)
    return sorted((row for row in judged if row.measured.group in report.suite_groups), key=badness)
