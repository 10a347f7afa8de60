"""What a report begins with: in one sentence, and in one picture, what is kept of strict's score and
what is gained."""

from __future__ import annotations

import math
from collections.abc import Sequence

from display.blocks import Paragraph, Picture, Section
from display.format import count, percent, plural, ratio
from display.plot import Plot
from evaluation.recovery import LEAST_PROMPTS, RecoveryOutcome
from evaluation.report.document.cells import beside, margin
from evaluation.report.document.purpose import sentences
from evaluation.report.document.tables import LaneRow, lane_rows
from evaluation.report.measured import Measured
from evaluation.report.values import Report

TITLE = "What is kept, and what is gained"
NOTE = (
    "Recovery is the share of strict’s score that is kept, τ ratio the tokens per pass over strict’s. "
    "A placebo (a cross) relaxes as many tokens as its rule at random places. A line joins the "
    "lanes of at least 5 runs that no other beats on both axes."
)

SUPPORTED, TOO_FEW = RecoveryOutcome.SUPPORTED, RecoveryOutcome.TOO_FEW
SAYS = {  # of one setting, of several, and the tone
    SUPPORTED: (
        "{name} kept {enough} of strict’s score or more",
        "{some} of {of} settings kept {enough} of strict’s score or more; the fastest is {name}",
        "good",
    ),
    RecoveryOutcome.NOT_SUPPORTED: (
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


def main_group(report: Report) -> str:
    """Return the group of the sentence and the picture: all suites together, or the last one that
    is scored."""
    groups = report.suite_groups or ("",)
    scored = {row.group for row in report.measured if row.main_score}
    return next((each for each in reversed(groups) if each in scored), groups[-1])


def kept_section(report: Report, group: str, plot: Plot | None) -> Section:
    """``plot``: of this group; None draws nothing."""
    picture = (Picture("chart-kept", TITLE, plot, note=NOTE),) if plot else ()
    return Section("kept", TITLE, (verdict_of(report, group), *picture))


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
