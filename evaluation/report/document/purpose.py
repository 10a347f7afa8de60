"""What a study was for: the certificate of a setting, or rules at equal τ."""

from __future__ import annotations

import math

from display.blocks import (
    Block,
    Bullets,
    Head,
    Paragraph,
    ReportTable,
    Section,
    TableCell,
)
from display.format import (
    MINUS,
    MISSING,
    count,
    number,
    percent,
    plural,
    points,
    probability,
    ratio,
)
from evaluation.advise.certificate import Candidate, CandidateOutcome, Certificate, compared
from evaluation.advise.usage import uses
from evaluation.report.document.cells import beside, between, margin, spread
from evaluation.report.measured import Measured
from evaluation.report.values import Report

WORTH = 1.05  # a smaller gain over strict is hardly worth it
MARKS = {
    CandidateOutcome.SUPPORTED: "good",
    CandidateOutcome.BELOW: "bad",
    CandidateOutcome.NOT_DECIDED: "open",
}
CANDIDATES = (
    Head("Setting", "in the order of the tests"),
    Head("Predicted τ", "from strict's runs on other prompts"),
    Head("Test"),
    Head("n", "prompts"),
    Head("Lost, gained", "answers, as means over the seeds of a prompt"),
    Head("Recovery", "score over strict's; under it its lower bound"),
    Head("p", "of the hypothesis that it is below the margin"),
    Head("τ", "with a 95 % interval"),
    Head("τ ratio", "over strict's"),
    Head("Speed-up", "over strict; not of runs in batches"),
)
RULES = (
    Head("Rule"),
    Head("On other prompts", "with which the parameter was chosen"),
    Head("Reached", "on the prompts of the study, with a 95 % interval"),
    Head("Score"),
)
DIFFERENCES = (
    Head("Rules"),
    Head("Difference", "of their scores, by prompt"),
    Head("Anytime", "the same with an interval that holds at every number of prompts: wider"),
    Head("n", "prompts"),
)


def measured_of(report: Report, lane: int) -> Measured:
    """Over all suites."""
    rows = [row for row in report.measured if row.lane == lane]
    return next(row for row in reversed(rows) if row.group in report.suite_groups)


def certificate_section(report: Report, certificate: Certificate) -> Section:
    chosen = certificate.chosen
    first, *more = sentences(report, certificate)
    blocks: list[Block] = [Paragraph(first, "good" if chosen else "open"), Bullets(tuple(more))]
    ways = uses(report.plan, report.plan.lanes[chosen.lane]) if chosen else {}
    blocks += [Paragraph(way, "code") for way in ways.values()]
    blocks.append(
        ReportTable(
            "Candidates in the order of their tests",
            CANDIDATES,
            tuple(_candidate(report, each) for each in certificate.candidates),
        )
    )
    lead = (
        f"Each hypothesis says that a setting scores less than {margin(certificate.margin)} of "
        "strict. They are tested in this order, which was fixed before any score was known, each "
        f"at the level {certificate.alpha:g}, up to the first that is not rejected: a setting "
        f"below the margin is supported with a probability of at most {certificate.alpha:g}."
    )
    return Section("certificate", "Which setting may be used", tuple(blocks), lead)


def sentences(report: Report, certificate: Certificate) -> tuple[str, ...]:
    """Say the result in a few lines."""
    chosen, running = certificate.chosen, certificate.running
    if running:
        so_far = f"p = {probability(running.p)} after {plural(running.prompts, 'prompt')}"
        return (f"Not decided yet: {running.name} is below the margin with {so_far}.",)
    if not chosen:
        first = certificate.candidates[0]
        return (
            "No setting is supported; use strict.",
            f"The first, {first.name}, is {first.outcome} after {plural(first.prompts, 'prompt')}.",
            f"Recovery {percent(first.recovery)}, at least {percent(first.bound)}.",
            f"It takes {count(certificate.needed)} prompts that strict answers right, and more "
            "where answers are lost.",
        )
    row = measured_of(report, chosen.lane)
    gain = row.speedup_strict.value if row.speedup_strict.value > 0 else row.tau_ratio.value
    hardly = "" if gain >= WORTH else " It is hardly worth it."
    pace = (
        "not measured in batches; --time-alone N measures N tasks alone"
        if math.isnan(row.speedup_strict.value)
        else f"speed-up over strict {beside(row.speedup_strict, ratio)}"
    )
    return (
        f"Use {chosen.name}: it is supported at {margin(certificate.margin)} of strict's "
        f"score.{hardly}",
        f"Recovery at least {percent(chosen.bound)}, p = {probability(chosen.p)}, "
        f"{plural(chosen.prompts, 'prompt')}; a setting below the margin would be supported in at "
        f"most {percent(certificate.alpha)} of studies.",
        f"τ {beside(row.tau)}, over strict's {beside(row.tau_ratio, ratio)}.",
        f"Time: {pace}.",
    )


def _candidate(report: Report, candidate: Candidate) -> tuple[TableCell, ...]:
    row, tested = measured_of(report, candidate.lane), candidate.prompts > 0
    changed = f"{MINUS}{number(candidate.lost)} / +{number(candidate.gained)}"
    bound = f"at least {percent(candidate.bound)}"
    return (
        TableCell(candidate.name),
        TableCell(number(candidate.prediction.tau)),
        TableCell(candidate.outcome, mark=MARKS.get(candidate.outcome, "")),
        TableCell(count(candidate.prompts)),
        TableCell(changed if tested else MISSING),
        TableCell(percent(candidate.recovery), bound if tested else ""),
        TableCell(probability(candidate.p) if tested else MISSING),
        spread(row.tau),
        spread(row.tau_ratio, ratio),
        spread(row.speedup_strict, ratio),
    )


def matching_section(report: Report) -> Section:
    plan, matching = report.plan, report.plan.matching
    assert matching is not None
    rows = []
    for lane, before in zip(compared(plan), matching.reached, strict=True):
        row = measured_of(report, lane)
        reached = row.tau if matching.quantity == "tau" else row.speedup
        score = row.main_score.value if row.main_score else None
        rows.append(
            (
                TableCell(plan.lanes[lane].title),
                TableCell(number(before)),
                spread(reached),
                spread(score, percent) if score else TableCell(MISSING),
            )
        )
    pairs = tuple(
        (
            TableCell(f"{plan.lanes[each.lane].title} {MINUS} {plan.lanes[each.other].title}"),
            spread(each.difference, points),
            TableCell(between(each.anytime, points)),
            TableCell(count(each.prompts)),
        )
        for each in report.differences
    )
    name = "τ" if matching.quantity == "tau" else "speed-up over none"
    tables = (
        ReportTable(f"Rules at {name} {number(matching.target)}", RULES, tuple(rows)),
        ReportTable("Differences of their scores", DIFFERENCES, pairs),
    )
    lead = (
        f"The parameter of each rule was chosen for {name} {number(matching.target)} on "
        f"{plural(matching.tuning, 'prompt')} that are none of the study's."
    )
    return Section("matched", f"Rules at equal {name}", tables, lead)
