"""Does a rule keep the answers right? The verdicts of a report in words and as a table, worst first. Knows no page."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from evaluation.format import count, plural
from evaluation.report.form.blocks import Block, Cell, Head, Listing, Paragraph, Section, Table
from evaluation.report.form.cells import (
    amount,
    beside,
    difference_cell,
    margin,
    mean_cell,
    percent,
    probability,
    spread,
    test_cells,
    verdict_cell,
)
from evaluation.report.form.choose import main_score, whole_groups
from evaluation.report.values import ALL, McNemar, Measured, Outcome, Report, Score
from evaluation.study.plan import Lane, Plan

ORDER = (Outcome.NOT_SUPPORTED, Outcome.TOO_FEW, Outcome.SUPPORTED)
TOLD = 8  # settings in words; the table has all
HEADS = (
    Head("Rule"), Head("Drafter"), Head("Suite"), Head("T", "temperature"), Head("Verdict"),
    Head("Recovery", "mean score over strict's with the same drafts"), Head("n", "prompts × seeds"), Head("Score"),
    Head("Strict", "strict with the same drafts"), Head("Difference", "score − strict's"),
    Head("Lost / gained", "right under strict only, and under the rule only"),
    Head("McNemar p", "exact, two-sided; under it by sign flips of whole prompts, and after Holm's correction for all comparisons"),
    Head("Over none", "mean score over that of decoding without drafts"), Head("Metric", "the first of the suite"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """One setting with a verdict."""

    measured: Measured
    lane: Lane
    score: Score

    @property
    def outcome(self) -> Outcome:
        assert self.score.verdict is not None
        return self.score.verdict.outcome

    @property
    def worst_first(self) -> tuple[int, float]:
        recovery = self.score.recovery.value
        return ORDER.index(self.outcome), math.inf if math.isnan(recovery) else recovery


def judged(report: Report) -> tuple[Judged, ...]:
    """Every setting of whole suites that has a verdict by its main metric, worst first."""
    whole = whole_groups(report)
    found = []
    for row in report.measured:
        score = main_score(row)
        if row.group in whole and score is not None and score.verdict is not None:
            found.append(Judged(row, report.plan.lanes[row.lane], score))
    return tuple(sorted(found, key=lambda one: one.worst_first))


def verdict_section(report: Report) -> Section:
    every = judged(report)
    lead = (
        f"A rule keeps the answers right where its recovery, the mean score over strict's on the same prompts, seeds and drafts, is at "
        f"least {margin(report.plan.margin)}; 95 % intervals, for which the seeds of a prompt are no further prompts."
    )
    if not every:
        return Section("verdict", "Verdict", (Paragraph(_nothing(report.plan), "note"),), lead)
    single = tuple(one for one in every if one.measured.group != ALL) or every
    blocks: list[Block] = [Paragraph(summary(single), _tone(single))]
    told = [one for one in single if one.outcome is not Outcome.SUPPORTED][:TOLD]
    if told:
        blocks.append(Listing(tuple(map(sentence, told)), "verdicts"))
    blocks.append(_table(every))
    return Section("verdict", "Verdict", tuple(blocks), lead)


def summary(every: tuple[Judged, ...]) -> str:
    """All verdicts in a sentence, bad news first. Of single suites: the pool of all of them would count everything twice."""
    amounts = Counter(one.outcome for one in every)
    words = [f"{count(amounts[outcome])} {outcome}" for outcome in ORDER if amounts[outcome]]
    worst = every[0]
    assert worst.score.verdict is not None
    stated, settings = margin(worst.score.verdict.margin), plural(len(every), "setting")
    return (
        f"Recovery ≥ {stated} in {settings} (rule × drafter × suite × temperature): {', '.join(words)}. "
        f"Worst: {named(worst)} with {beside(worst.score.recovery, percent)}."
    )


def named(one: Judged) -> str:
    """The setting: ``mars(theta=0.9), model K=5, gsm8k, T = 1``."""
    group = "all suites" if one.measured.group == ALL else one.measured.group
    return f"{one.lane.name}, {one.lane.drafts}, {group}, T = {one.measured.temperature:g}"


def sentence(one: Judged) -> str:
    """What was found in one setting, with everything that it rests on."""
    score, verdict, test = one.score, one.score.verdict, one.score.mcnemar
    assert verdict is not None
    facts = [f"Recovery {beside(score.recovery, percent)}"]
    if test is not None:
        facts.append(f"{plural(test.lost, 'answer')} lost and {count(test.gained)} gained, {_tests(test)}")
    facts.append(f"{plural(one.measured.prompts, 'prompt')} × {plural(one.measured.seeds, 'seed')}")
    return f"{named(one)}: {verdict.sentence}. {', '.join(facts)}."


def _tests(test: McNemar) -> str:
    """By prompt: with several seeds McNemar's own test takes each for a prompt of its own."""
    holm = "" if math.isnan(test.p_holm) else f" (Holm {_equals(test.p_holm)})"
    return f"McNemar p {_equals(test.p)}, by prompt p {_equals(test.p_by_prompt)}{holm}"


def _equals(p: float) -> str:
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"


def _tone(every: tuple[Judged, ...]) -> str:
    outcomes = {one.outcome for one in every}
    return "bad" if Outcome.NOT_SUPPORTED in outcomes else "open" if Outcome.TOO_FEW in outcomes else "good"


def _nothing(plan: Plan) -> str:
    if any(suite.metrics for suite in plan.suites):
        return "No scored prompt has ended in a rule and in strict yet, so there is nothing to judge."
    return "None of the suites has a metric, so nothing can be said on right and wrong; the texts are compared with strict's below."


def _table(every: tuple[Judged, ...]) -> Table:
    return Table("Verdicts by rule, drafter, suite and temperature, worst first", HEADS, tuple(map(_row, every)))


def _row(one: Judged) -> tuple[Cell, ...]:
    row, score = one.measured, one.score
    return (
        Cell(one.lane.name), Cell(one.lane.drafts), Cell(row.group), Cell(f"{row.temperature:g}"), verdict_cell(score.verdict),
        spread(score.recovery, percent), amount(row), mean_cell(score.value, score), mean_cell(score.baseline, score),
        difference_cell(score), *test_cells(score), spread(score.recovery_none, percent), Cell(score.metric),
    )  # fmt: skip
