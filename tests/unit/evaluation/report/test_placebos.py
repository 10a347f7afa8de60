"""Rules beside the placebos that imitate them: outcomes, what is left open, and Holm's family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from display.blocks import Paragraph, ReportTable
from evaluation.plan.lane import with_placebos
from evaluation.plan.plan import Plan
from evaluation.recovery import (
    PlaceboOutcome,
    paired,
    placebo_test,
)
from evaluation.report.document.build import document
from evaluation.report.measuring.grid import grid
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


def outcomes(report: Report) -> list[tuple[str, ...]]:
    """Rule, suite, among which tokens, and outcome, as the first table has them."""
    table = document(report, {}).sections[1].blocks[0]
    assert isinstance(table, ReportTable)
    heads = [head.text for head in table.heads]
    columns = [heads.index(name) for name in ("Rule", "On", "Among", "Outcome")]
    return [tuple(row[at].text for at in columns) for row in table.rows]


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
    unproven, few = PlaceboOutcome.UNPROVEN, PlaceboOutcome.TOO_FEW
    told = [(on, among[:3], outcome) for _, on, among, outcome in outcomes(report)]
    every = ("sums", unproven), ("stories", few), ("stories", few), ("sums", PlaceboOutcome.BETTER)
    of_rank = ("sums", unproven), ("stories", few)
    assert told == [
        (on, among, outcome)
        for among, parts in (("all", every), ("the", of_rank))
        for on, outcome in parts
        for _ in report.plan.temperatures
    ]
    possible = {row.possible for row in report.placebos if row.lane == HARM and row.group == "sums"}
    assert same.placebos["placebo"].possible in possible
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


def test_three_prompts_decide_nothing() -> None:
    """Though random answers none of those that the rule answers right."""
    plan, results = with_random(1.0, items=6, repeats=1, temperatures=(0.0,))
    report = reported(plan, results)
    assert {outcome for *_, outcome in outcomes(report)} == {PlaceboOutcome.TOO_FEW}
    blocks = document(report, {}).sections[1].blocks
    (text,) = [each.text for each in blocks if isinstance(each, Paragraph)]
    assert text.startswith("Recovery ≥ 98 % takes 189 prompts")


def test_a_rule_that_relaxed_nothing_is_compared_with_nothing() -> None:
    plan, results = with_random(0.5)
    without = [
        replace(row, data=row.data | {"relaxed": 0}) if row.lane == HARM else row for row in results
    ]
    report = reported(plan, without)
    compared = {(rule, outcome) for rule, on, _, outcome in outcomes(report) if on == "sums"}
    assert (LANES[HARM].title, "–") in compared and len(compared) == 3
    harmed = [row.main_score for row in report.measured if row.lane == HARM]
    assert all(score and not score.placebos for score in harmed)


def test_draws_count_once_all_of_a_task_are_completed() -> None:
    plan = study_plan(lanes=with_placebos(LANES, 2))
    results = drawn_results(plan, loses=dict.fromkeys((lane.name for lane in plan.lanes), 0.1))
    lane, draws = next((at, each) for at, each in enumerate(plan.draws) if len(each) == 2)
    missing = [row for row in results if (row.task, row.lane) != (0, draws[0])]
    assert grid(plan, results).completed[:, lane].all()
    assert list(np.flatnonzero(~grid(plan, missing).completed[:, lane])) == [0]
