"""What a report warns of, each from a study made to show it; votes and judgements; the store
itself."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evaluation.plan.plan import Plan
from evaluation.report.rows import VoteRow
from evaluation.report.values import Report
from evaluation.statistics import wilson
from storage import Choice, Preferred, StoredJudgement, StoredResult, StoredVote
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.report.drawn import (
    HARM,
    LANES,
    MARS,
    NONE,
    STRICT,
    drawn_results,
    study_plan,
)
from tests.unit.evaluation.report.drawn import reported as drawn_report

PLAN = study_plan(items=6, repeats=2, temperatures=(0.0,))
AT = datetime(2026, 11, 21, tzinfo=UTC)


def reported(
    results: list[StoredResult] | None = None, plan: Plan = PLAN, **changed: Any
) -> Report:
    drawn = drawn_results(plan) if results is None else results
    return drawn_report(plan, drawn, **changed)


def changed(
    lane: int, data: dict[str, Any] | None = None, relative: dict[str, Any] | None = None
) -> list[StoredResult]:
    def change(row: StoredResult) -> StoredResult:
        return replace(
            row, data=row.data | (data or {}), relative=(row.relative or {}) | (relative or {})
        )

    return [change(row) if row.lane == lane else row for row in drawn_results(PLAN)]


def warnings_with(report: Report, words: str) -> list[str]:
    return [warning for warning in report.warnings if words in warning]


def test_a_rule_that_keeps_more_and_writes_longer_is_named() -> None:
    (warning,) = warnings_with(
        reported(plan=study_plan(items=40, repeats=1, temperatures=(0.0,))),
        "also writes longer texts",
    )
    assert f"{LANES[HARM].name} on sums (τ × " in warning
    assert not any(f"{name} on sums" in warning for name in ("strict", "none"))


def test_many_comparisons_and_few_prompts_are_named() -> None:
    few = study_plan(items=2, temperatures=(0.0,))
    assert warnings_with(reported(plan=few), "no verdict on stories, of 1 prompt: below 30")
    report = reported()
    (warning,) = warnings_with(report, "comparisons with strict were tested")
    assert warning.startswith("2 comparisons") and "Holm" in warning
    assert (
        len(warnings_with(report, "below 30, bootstrap intervals are too narrow")) == 2
    )  # for each suite


@pytest.mark.parametrize(
    ("lane", "data", "relative", "sentence"),
    [
        (
            NONE,
            None,
            {"same": False, "cause": "numeric", "divergence": 3},
            "18 of .* do so at a numeric tie",
        ),
        (STRICT, None, {"same_as_none": False}, "strict differs from none in 18 of 18 runs"),
        (
            MARS,
            {"ended": False},
            None,
            r"max_new_tokens 256 cut 100 % of the texts of mars\(theta=0.9\)",
        ),
    ],
)
def test_what_is_odd_in_a_lane_is_reported(
    lane: int, data: Any, relative: Any, sentence: str
) -> None:
    assert any(
        re.match(sentence, each) for each in reported(changed(lane, data, relative)).warnings
    )
    assert not any(re.match(sentence, each) for each in reported().warnings)


def test_suites_without_scores_have_no_verdict_and_say_so() -> None:
    results = [replace(row, data=row.data | {"scores": {}}) for row in drawn_results(PLAN)]
    report = reported(results)
    assert len(warnings_with(report, "Nothing on")) == 2
    assert not any(row.scores for row in report.measured)


def test_several_devices_are_reported_and_two_cards_of_one_kind_are_not() -> None:
    cards = {
        "w0": {"device": "cuda:0 (H200)", "dtype": "float32"},
        "w1": {"device": "cuda:1 (H200)", "dtype": "bfloat16"},
    }
    report = reported(environment=cards)
    assert report.environment == {
        "device": "cuda:0 (H200); cuda:1 (H200)",
        "dtype": "float32; bfloat16",
    }
    assert warnings_with(report, "several values of dtype (float32; bfloat16)")
    assert not warnings_with(report, "several values of device")


def test_a_plan_without_none_says_what_is_missing() -> None:
    plan = replace(PLAN, lanes=LANES[1:])
    results = [replace(row, lane=row.lane - 1) for row in drawn_results(PLAN) if row.lane]
    report = reported(results, plan)
    assert warnings_with(report, "no lane none")
    assert {repr((*row.speedup, *row.speedup_mean)) for row in report.measured} == {
        repr((math.nan,) * 6)
    }


def test_an_overshoot_without_bound_is_not_left_out_of_the_mean() -> None:
    results = changed(MARS)
    at = next(n for n, row in enumerate(results) if row.lane == MARS)
    results[at] = replace(results[at], data=results[at].data | {"overshoot_max": "inf"})
    rows = [row for row in reported(results).measured if row.group == "sums"]
    overshoot = {row.lane: row.overshoot for row in rows}
    assert overshoot[MARS].value == math.inf and not any(map(math.isfinite, overshoot[MARS]))
    assert all(map(math.isfinite, overshoot[HARM]))


def vote(choice: Choice, left: str, right: str) -> StoredVote:
    return StoredVote("v", "c", AT, choice, left, right, "run 0 1", "run 0 2", "", "prompt")


def test_votes_between_strict_and_a_rule_of_the_plan_join_in() -> None:
    mars = LANES[MARS].name
    cast = (
        vote(Choice.LEFT, "strict", mars),
        vote(Choice.LEFT, mars, "strict"),
        vote(Choice.RIGHT, "strict", mars),
        vote(Choice.TIE, mars, "strict"),
        vote(Choice.BOTH_BAD, mars, "strict"),
        vote(Choice.LEFT, "strict", "fly"),
        vote(Choice.LEFT, mars, "none"),
    )
    (row,) = reported(cast=cast).votes
    expect(row, rule=mars, wins=2, losses=1, ties=2)
    assert row.share == pytest.approx((2 / 3, *wilson(2, 3)))


def test_a_judgement_counts_where_both_orders_agree() -> None:
    def judgement(task: int, swapped: bool, choice: Preferred) -> StoredJudgement:
        return StoredJudgement(task, MARS, swapped, AT, "judge", choice, "")

    rule, baseline, tie = Preferred.RULE, Preferred.BASELINE, Preferred.TIE
    answers = [
        (rule, rule),
        (rule, baseline),
        (baseline, baseline),
        (rule, rule),
        (tie, tie),
        (rule, tie),
    ]
    judgements = [
        judgement(task, bool(at), one)
        for task, both in enumerate(answers)
        for at, one in enumerate(both)
    ]
    (row,) = reported(judged=(*judgements, judgement(9, False, rule))).judged
    assert row == VoteRow("mars(theta=0.9)", 2, 1, 3, row.share)
    assert row.share.value == pytest.approx(2 / 3)


def test_verdicts_of_an_earlier_judge_do_not_count() -> None:
    def judgement(task: int, swapped: bool, judge: str, later: int) -> StoredJudgement:
        at = AT + timedelta(seconds=later)
        return StoredJudgement(task, MARS, swapped, at, judge, Preferred.RULE, "")

    # the second judge was stopped: of task 0 it has both orders, of task 1 one
    replaced = [judgement(0, False, "second", 3), judgement(0, True, "second", 4)]
    mixed = [judgement(1, False, "second", 5), judgement(1, True, "first", 1)]
    left = [judgement(2, False, "first", 2), judgement(2, True, "first", 2)]
    (row,) = reported(judged=(*replaced, *mixed, *left)).judged
    expect(row, wins=1, losses=0, ties=0)
