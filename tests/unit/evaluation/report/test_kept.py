"""The sentence that a report begins with says what its numbers say, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from display.blocks import Paragraph
from evaluation.recovery import RecoveryOutcome
from evaluation.report.document.build import document
from evaluation.report.example import example
from evaluation.report.values import Report
from evaluation.statistics import Interval
from tests.reports import bare, make_report

SUPPORTED, NOT_SUPPORTED, TOO_FEW = (
    RecoveryOutcome.SUPPORTED,
    RecoveryOutcome.NOT_SUPPORTED,
    RecoveryOutcome.TOO_FEW,
)
GAINED = "with 1.08× [0.996, 1.16] strict’s tokens per pass."


def said(report: Report) -> str:
    block = document(report, None).sections[0].blocks[0]
    assert isinstance(block, Paragraph)
    return block.text


def judged(*outcomes: RecoveryOutcome, prompts: int = 300) -> Report:
    """The example without placebos: with these verdicts of its first rules, and these alone."""
    report, rows = example(), []
    for row in report.measured:
        (name, score), *_ = row.scores.items()
        if row.lane <= len(outcomes):
            verdict = outcomes[row.lane - 1] if row.lane else None
            scores = {name: replace(score, verdict=verdict)}
            rows.append(replace(row, prompts=prompts, scores=scores))
    return replace(report, measured=tuple(rows))


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            lambda: judged(SUPPORTED),
            f"MARS θ = 0.97 kept 98 % of strict’s score or more: 85.6 % [78.5, 92.4] on 300 prompts, {GAINED}",
        ),
        (
            lambda: judged(SUPPORTED, SUPPORTED, NOT_SUPPORTED),
            "2 of 3 settings kept 98 % of strict’s score or more; the fastest is MARS θ = 0.9: 74.6 %",
        ),
        (
            lambda: judged(NOT_SUPPORTED, NOT_SUPPORTED),
            "All 2 settings kept less than 98 % of strict’s score; none kept more than MARS θ = 0.97: 85.6 %",
        ),
        (
            lambda: judged(NOT_SUPPORTED, TOO_FEW),
            "None of 2 settings is shown to keep 98 % of strict’s score; none kept more than MARS θ = 0.97: ",
        ),
        (  # not enough prompts to say who kept more
            lambda: judged(TOO_FEW, TOO_FEW, prompts=3),
            "None of 2 settings is shown to keep 98 % of strict’s score, on 3 prompts (no verdict: at least "
            "30 are needed).",
        ),
        (
            lambda: judged(TOO_FEW, prompts=3),
            "Whether MARS θ = 0.97 keeps 98 % of strict’s score is undecided: 85.6 % [78.5, 92.4] on 3 "
            f"prompts (no verdict: at least 30 are needed), {GAINED}",
        ),
        (example, "As many tokens relaxed at random places kept 89.2 % [83.9, 94.5]."),
        (lambda: bare(make_report()), "So far: No rule has been compared with strict yet."),
    ],
)
def test_the_first_sentence_says_what_was_kept_and_gained(
    report: Callable[[], Report], words: str
) -> None:
    assert words in said(report())


def test_without_scores_the_first_sentence_says_how_many_texts_are_equal() -> None:
    report = example()
    rows = (
        replace(row, scores={}, same=Interval(0.1 * row.lane, 0.0, 0.9)) for row in report.measured
    )
    assert said(replace(report, measured=tuple(rows))).startswith(
        "Nothing is scored. MARS, gap g = 0.7 wrote strict’s text in 30.0 % [0.0, 90.0] of 300 runs, with"
    )
