"""Rules beside the placebos that imitate them: outcomes, what is left open, and Holm's family."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from display.blocks import Paragraph
from evaluation.plan.lane import with_placebos
from evaluation.plan.plan import Plan
from evaluation.recovery import (
    PlaceboOutcome,
    paired,
    placebo_test,
)
from evaluation.report.document.build import document
from evaluation.report.values import Report
from storage import StoredResult
from tests.unit.evaluation.report.drawn import (
    HARM,
    LANES,
    LOSES,
    MARS,
    NONE,
    NUMBERS,
    drawn_results,
    reported,
    study_plan,
)


def with_random(lost: float, **changed: Any) -> tuple[Plan, list[StoredResult]]:
    """A rule that loses 4 % of strict's answers, one that loses 30 %, and random relaxation in
    place of the first that loses ``lost``, among its ranks 4 %, in place of the second 30 %."""
    plan = study_plan(lanes=with_placebos(LANES, 1), **changed)
    first, second = (plan.lanes[plan.placebos(lane)[0]].name for lane in (MARS, HARM))
    (ranked,) = plan.placebos(MARS, ranked=True)
    loses = LOSES | {first: lost, plan.lanes[ranked].name: 0.04, second: 0.3, "always": 0.6}
    return plan, drawn_results(plan, loses=loses)


def paragraphs(report: Report) -> list[str]:
    blocks = document(report, {}).sections[1].blocks
    return [each.text for each in blocks if isinstance(each, Paragraph)]


def test_a_rule_is_compared_with_the_lanes_that_imitate_it() -> None:
    """Two suites, two temperatures: one rule loses less than random but as much as random of its
    ranks, the other as much. Of the 20 prompts of a suite nothing is said; Holm's correction is of
    the six other comparisons."""
    plan, results = with_random(0.5)
    report = reported(plan, results)
    by_lane = {row.lane: row.main_score for row in report.measured if row.group == "sums"}
    better, same, random = by_lane[MARS], by_lane[HARM], by_lane[4]
    assert better and same and random and better.placebos and same.placebos
    assert (
        better.placebos["placebo"].outcome is PlaceboOutcome.BETTER
        and better.placebos["placebo"].ratio.high < 1
    )
    assert better.placebos["placebo"].ratio.value == pytest.approx(
        random.value.value / better.value.value
    )
    assert same.placebos["placebo"].outcome is PlaceboOutcome.UNPROVEN
    assert random.verdict is random.mcnemar is None and not random.placebos
    assert {row.lane for row in report.prompts} == {NONE, MARS, HARM}
    not_shown, few, shown, rank, few_of_rank, family, _ = paragraphs(report)
    for text, settings, words in (
        (not_shown, "2 of 8", "the rule is not shown to be better than random"),
        (few, "4 of 8", "it is not decided whether the rule is better"),
        (shown, "2 of 8", "the rule scores more than random"),
        (rank, "2 of 4", "the rule is not shown to be better than random"),
        (few_of_rank, "2 of 4", "it is not decided"),
    ):
        assert text.startswith(f"In {settings} settings {words}")
        assert ("among those of the ranks" in text) is (text in (rank, few_of_rank))
    ends = r"[\d.]+ % \[[\d.]+, [\d.]+\]"
    name = re.escape(f"{LANES[HARM].title} on sums at temperature 0")
    assert re.search(rf"{name}: {ends}, a difference of up to [\d.]+ % is possible;", not_shown)
    assert re.search(rf" on stories .*{ends} of 20 prompts;", few)
    assert "6 comparisons" in family and "Holm" in family
    pairs = [
        [row for row in results if row.lane == lane and NUMBERS in row.data["scores"]]
        for lane in (4, MARS)
    ]
    pairs = [[row for row in each if plan.task(row.task).temperature] for each in pairs]
    scores = [np.array([row.data["scores"][NUMBERS] for row in each]) for each in pairs]
    items = np.array([plan.task(row.task).item for row in pairs[0]])
    alone = placebo_test(paired(*scores, items, binary=True), plan.equivalence)
    assert better.placebos["placebo"].ratio == alone.ratio
    factor = better.placebos["placebo"].p_differ / alone.p_differ
    assert round(factor) in (5, 6) and factor == pytest.approx(round(factor))


def test_a_placebo_that_relaxed_less_than_the_rule_says_so() -> None:
    plan, results = with_random(0.5, repeats=1, temperatures=(0.0,))

    def due(share: float) -> list[str]:
        changes = [{"due": 4 * (1 + share)} if lane.imitates else {} for lane in plan.lanes]
        return paragraphs(
            reported(
                plan,
                [
                    replace(row, data=row.data | {"relaxed": 4} | changes[row.lane])
                    for row in results
                ],
            )
        )

    full, short = due(0.0), due(0.25)
    (added,) = [text for text in short if text not in full]
    assert added.startswith("Random's texts ended before all was relaxed: up to 25.0 % of its")


def test_three_prompts_decide_nothing() -> None:
    """Though random answers none of those that the rule answers right."""
    plan, results = with_random(1.0, items=6, repeats=1, temperatures=(0.0,))
    first, *_ = texts = paragraphs(reported(plan, results))
    assert first.startswith("In 4 of 4 settings it is not decided whether the rule is better")
    assert texts[-1].startswith("Recovery ≥ 98 % takes 189 prompts")
    assert not any(word in " ".join(texts) for word in ("signal", "not supported", "scores more"))


def test_a_rule_that_relaxed_nothing_is_compared_with_nothing() -> None:
    plan, results = with_random(0.5)
    without = [
        replace(row, data=row.data | {"relaxed": 0}) if row.lane == HARM else row for row in results
    ]
    report = reported(plan, without)
    few, shown, _, _, nothing, *_ = paragraphs(report)
    assert shown.startswith("In 2 of 4 settings the rule scores more than random")
    assert nothing.startswith("In 4 of 8 settings the rule relaxed no token: ")
    assert LANES[HARM].title not in few + shown and LANES[HARM].title in nothing
    harmed = [row.main_score for row in report.measured if row.lane == HARM]
    assert all(score and not score.placebos for score in harmed)
