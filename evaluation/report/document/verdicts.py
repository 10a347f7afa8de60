"""The verdicts of a report, worst first, and what a right answer costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from display.blocks import Block, Paragraph, ReportTable, Section
from display.format import count, first_few, percent, plural
from evaluation.plan.plan import Plan
from evaluation.recovery import (
    LEAST_PROMPTS,
    PlaceboOutcome,
    PlaceboTest,
    RecoveryOutcome,
    right_answers_needed,
)
from evaluation.report.document.cells import beside, margin
from evaluation.report.document.tables import COSTS, SETTING, LaneRow, lane_rows, make_table
from evaluation.report.measured import PLACEBOS
from evaluation.report.values import Report

UNFINISHED = (
    "No scored prompt has been completed by a rule and by strict yet, so there is no verdict."
)
UNSCORED = "None of the suites has a metric, so there is no verdict; the texts are compared with strict's below."
ORDER = (RecoveryOutcome.NOT_SUPPORTED, RecoveryOutcome.TOO_FEW, RecoveryOutcome.SUPPORTED)
RANDOM = "random relaxation of as many tokens of each text"
RANKED = f"{RANDOM} among those of the ranks that it admits"
CLAIMS = {  # in this order; of the rule and one of these two
    PlaceboOutcome.WORSE: ("{} scores more than the rule", "bad"),
    PlaceboOutcome.UNPROVEN: ("the rule is not shown to be better than {}", "open"),
    PlaceboOutcome.TOO_FEW: (
        f"it is not decided whether the rule is better than {{}}: at least {LEAST_PROMPTS} prompts "
        "are needed",
        "open",
    ),
    PlaceboOutcome.EQUIVALENT: (
        "the rule scores as {}: its signal does not tell which of these to relax",
        "bad",
    ),
    PlaceboOutcome.BETTER: ("the rule scores more than {}", "good"),
}
MISSING_SHARE = 0.05  # of a placebo's tokens; fewer are not worth a sentence
RELAXED_NOTHING = "the rule relaxed no token"
TENTH = 0.1  # of the right answers, for a number of prompts
LABEL_OF_COSTS = "What a right answer costs, and runs without one"
REASONING = ("reasoning_right", "answer_right", "reasoning_s_right")
LABEL = "Verdicts by rule, drafter, suite and temperature, worst first"
COLUMNS = (
    *("rule", "drafter", "suite", "temperature", "verdict", "recovery", "templates", "placebo"),
    *("ranked", "amount", "score", "baseline", "difference", "lost", "test", "over_none", "main"),
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


def _against_placebos(report: Report) -> Iterator[Paragraph]:
    """Yield the verdicts by the main metric of a suite: first whether rules select at all, then
    whether they do beyond the rank. What is not better comes first."""
    plan, suites = report.plan, report.plan.suite_names
    rows = [
        (row.setting(plan), row)
        for row in report.measured
        if row.group in suites and plan.placebos(row.lane) and row.main_score
    ]
    tested = 0
    for random, kind in zip((RANDOM, RANKED), PLACEBOS, strict=True):
        known = [
            (setting, test)
            for setting, row in rows
            if row.main_score and (test := row.main_score.placebos.get(kind))
        ]
        tested += sum(test.outcome is not PlaceboOutcome.TOO_FEW for _, test in known)
        for outcome, (claim, tone) in CLAIMS.items():
            named = [
                f"{setting}: {_beside_random(test)}"
                for setting, test in known
                if test.outcome is outcome
            ]
            yield from _claimed(claim.format(random), tone, named, len(known))
    nothing = [setting for setting, row in rows if row.relaxed_share.value == 0]
    yield from _claimed(RELAXED_NOTHING, "note", nothing, len(rows))
    missing = max(
        (
            each.shortfall / each.rule_relaxed
            for each in report.placebos
            if each.group in suites and each.rule_relaxed and not math.isnan(each.shortfall)
        ),
        default=0.0,
    )
    if missing >= MISSING_SHARE:
        yield Paragraph(
            f"Random's texts ended before all was relaxed: up to {percent(missing)} of its tokens are "
            "missing, which is in its favour.",
            "open",
        )
    if tested:
        yield Paragraph(
            "In percent: random's score over the rule's, with its 95 % interval. "
            f"{plural(tested, 'comparison')} (rule × drafter × suite × temperature × kind of "
            "random), with Holm's correction.",
            "note",
        )


def _claimed(claim: str, tone: str, named: Sequence[str], total: int) -> Iterator[Paragraph]:
    if named:
        of = f"In {count(len(named))} of {plural(total, 'setting')}"
        yield Paragraph(f"{of} {claim}: {first_few(named)}.", tone)


def _beside_random(test: PlaceboTest) -> str:
    """Write the ratio, and what else is possible."""
    more = {
        PlaceboOutcome.UNPROVEN: f", a difference of up to {percent(test.possible)} is possible",
        PlaceboOutcome.TOO_FEW: f" of {plural(test.prompts, 'prompt')}",
    }
    return f"{beside(test.ratio, percent)}{more.get(test.outcome, '')}"


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
