"""What a report begins with: in one sentence and one picture, what is kept of strict's score and what
is gained; the verdicts, worst first, and what a right answer costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from display.blocks import Block, Paragraph, Picture, ReportTable, Section
from display.format import count, percent, plural, ratio
from display.plot import Plot
from evaluation.plan.plan import Plan
from evaluation.recovery import (
    LEAST_PROMPTS,
    PlaceboOutcome,
    RecoveryOutcome,
    right_answers_needed,
)
from evaluation.report.document.cells import beside, margin
from evaluation.report.document.purpose import sentences
from evaluation.report.document.rows import row_table
from evaluation.report.document.tables import COSTS, SETTING, LaneRow, lane_rows, make_table
from evaluation.report.measured import PLACEBOS, Measured
from evaluation.report.rows import TWO_BEST
from evaluation.report.values import Report

KEPT = "What is kept, and what is gained"
KEPT_NOTE = (
    "Recovery is the share of strict’s score that is kept, τ ratio the tokens per pass over strict’s. "
    "A placebo (a cross) relaxes as many tokens as its rule at random places. A line joins the "
    "lanes of at least 5 runs that no other beats on both axes."
)

SUPPORTED, TOO_FEW = RecoveryOutcome.SUPPORTED, RecoveryOutcome.TOO_FEW
NOT_SUPPORTED = RecoveryOutcome.NOT_SUPPORTED
SAYS = {  # of one setting, of several, and the tone
    SUPPORTED: (
        "{name} kept {enough} of strict’s score or more",
        "{some} of {of} settings kept {enough} of strict’s score or more; the fastest is {name}",
        "good",
    ),
    NOT_SUPPORTED: (
        "{name} kept less than {enough} of strict’s score",
        "All {of} settings kept less than {enough} of strict’s score",
        "bad",
    ),
    TOO_FEW: (
        "Whether {name} keeps {enough} of strict’s score is undecided",
        "None of {of} settings is shown to keep {enough} of strict’s score",
        "open",
    ),
}
UNFINISHED = (
    "No scored prompt has been completed by a rule and by strict yet, so there is no verdict."
)
UNSCORED = "None of the suites has a metric, so there is no verdict; the texts are compared with strict's below."
ORDER = (NOT_SUPPORTED, TOO_FEW, SUPPORTED)
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


def main_group(report: Report) -> str:
    """Return the group of the sentence and the picture: all suites together, or the last one that
    is scored."""
    groups = report.suite_groups or ("",)
    scored = {row.group for row in report.measured if row.main_score}
    return next((each for each in reversed(groups) if each in scored), groups[-1])


def kept_section(report: Report, group: str, plot: Plot | None) -> Section:
    """``plot``: of this group; None draws nothing."""
    picture = (Picture("chart-kept", KEPT, plot, note=KEPT_NOTE),) if plot else ()
    return Section("kept", KEPT, (verdict_of(report, group), *picture))


def verdict_of(report: Report, group: str) -> Paragraph:
    so_far = "So far: " if report.tasks_done < report.plan.tasks else ""
    text, tone = _sentence(report, group)
    return Paragraph(so_far + text, tone)


def _sentence(report: Report, group: str) -> tuple[str, str]:
    """Return what the data show, and its tone."""
    certificate = report.certificate
    if certificate:
        return sentences(report, certificate)[0], "good" if certificate.chosen else "open"
    rows = [row for row in lane_rows(report) if row.measured.group == group and row.measured.runs]
    judged = [row for row in rows if row.score and row.score.verdict]
    if judged:
        return _of_scores(report, judged)
    relaxed = [row for row in rows if row.lane.relaxes and not math.isnan(row.measured.same.value)]
    if not relaxed:
        return "No rule has been compared with strict yet.", "note"
    best = max(relaxed, key=lambda row: row.measured.same.value)
    same = beside(best.measured.same, percent)
    amount = best.measured
    return (
        f"Nothing is scored. {amount.setting(report.plan)} wrote strict’s text in {same} of {plural(amount.runs, 'run')}, "
        f"{_gained(amount)}.",
        "note",
    )


def _of_scores(report: Report, judged: Sequence[LaneRow]) -> tuple[str, str]:
    """Name the fastest setting that is supported, else one than which none kept more."""
    outcomes = {row.score.verdict for row in judged if row.score and row.score.verdict}
    supported = [row for row in judged if row.score and row.score.verdict is SUPPORTED]
    best = max(supported, key=_gain) if supported else max(judged, key=_kept)
    row, score, of = best.measured, best.score, len(judged)
    assert score is not None
    name = row.setting(report.plan)
    outcome = SUPPORTED if supported else outcomes.pop() if len(outcomes) == 1 else TOO_FEW
    single, several, tone = SAYS[outcome]
    claim = (single if of == 1 else several).format(
        name=name, of=count(of), some=count(len(supported)), enough=margin(report.plan.margin)
    )
    few = row.prompts < LEAST_PROMPTS
    on = f"on {plural(row.prompts, 'prompt')}"
    on += f" (no verdict: at least {LEAST_PROMPTS} are needed)" if few else ""
    if of > 1 and not supported:
        if few or _kept(best) == -math.inf:
            return f"{claim}, {on}.", tone
        claim += f"; none kept more than {name}"
    kept = f"{claim}: {beside(score.recovery, percent)} {on}, {_gained(row)}."
    return kept + _of_placebo(report, best), tone


def _kept(row: LaneRow) -> float:
    kept = row.score.recovery.value if row.score else math.nan
    return -math.inf if math.isnan(kept) else kept


def _gain(row: LaneRow) -> float:
    known = (row.measured.speedup_strict.value, row.measured.tau_ratio.value)
    return next((each for each in known if not math.isnan(each)), -math.inf)


def _gained(row: Measured) -> str:
    if math.isnan(row.speedup_strict.value):
        return f"with {beside(row.tau_ratio, ratio)} strict’s tokens per pass"
    return f"at {beside(row.speedup_strict, ratio)} strict’s speed"


def _of_placebo(report: Report, best: LaneRow) -> str:
    """Say what its placebo kept, if it has one."""
    at = best.measured.group, best.measured.temperature
    lanes = report.plan.placebos(best.measured.lane)
    for row in report.measured:
        if row.lane in lanes and (row.group, row.temperature) == at and row.main_score:
            kept = beside(row.main_score.recovery, percent)
            return f" As many tokens relaxed at random places kept {kept}."
    return ""


def verdict_section(report: Report) -> Section:
    lead = (
        "A rule keeps the answers right where its recovery, the mean score over strict's on the "
        f"same prompts, seeds and drafts, is at least {margin(report.plan.margin)}; in the 95 % "
        "intervals the seeds of a prompt do not count as further prompts."
    )
    first = _against_placebos(report)
    meters = _meters(report)
    if every := _judged(report):
        open_ = any(row.score and row.score.verdict is TOO_FEW for row in every)
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
