"""What a report warns of, each from a study made to show it; votes and judgements; the store
itself; failed, missing and unreadable results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest

from evaluation.plan.plan import Plan
from evaluation.report.rows import VoteRow
from evaluation.report.values import Report
from evaluation.statistics import wilson
from mars_core.types import Status
from storage import Choice, Preferred, StoredJudgement, StoredResult, StoredVote
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.report.drawn import (
    HARM,
    LANES,
    MARS,
    NONE,
    NUMBERS,
    STRICT,
    drawn_results,
    row_of,
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
    return [warning for warning in report.warnings if re.search(words, warning)]


def unscored() -> Report:
    return reported([replace(row, data=row.data | {"scores": {}}) for row in drawn_results(PLAN)])


def without_none() -> Report:
    results = [replace(row, lane=row.lane - 1) for row in drawn_results(PLAN) if row.lane]
    report = reported(results, replace(PLAN, lanes=LANES[1:]))
    assert all(np.isnan([*row.speedup, *row.speedup_mean]).all() for row in report.measured)
    return report


def on_cards() -> Report:
    """Two cards of one kind are one device."""
    cards = {"w0": {"device": "cuda:0 (H200)", "dtype": "float32"}}
    cards |= {"w1": {"device": "cuda:1 (H200)", "dtype": "bfloat16"}}
    report = reported(environment=cards)
    assert report.environment["device"] == "cuda:0 (H200); cuda:1 (H200)"
    assert not warnings_with(report, "several values of device")
    return report


ODD: dict[str, Callable[[], Report]] = {
    r"^18 of .* do so at a numeric tie": lambda: reported(
        changed(NONE, relative={"same": False, "cause": "numeric", "divergence": 3})
    ),
    "^Strict differs from none in 18 of 18 runs": lambda: reported(
        changed(STRICT, relative={"same_as_none": False})
    ),
    r"^max_new_tokens 256 cut 100 % of the texts of MARS θ = 0.9": lambda: reported(
        changed(MARS, {"ended": False})
    ),
    "Nothing on sums could be scored": unscored,
    "no lane none": without_none,
    r"several values of dtype \(float32; bfloat16\)": on_cards,
    f"longer texts, .*{re.escape(LANES[HARM].title)} on sums \\(τ × ": lambda: reported(
        plan=study_plan(items=40, repeats=1, temperatures=(0.0,))
    ),
    "no verdict on stories, of 1 prompt: below 30": lambda: reported(
        plan=study_plan(items=2, temperatures=(0.0,))
    ),
}


@pytest.mark.parametrize("words", ODD)
def test_what_is_odd_is_reported(words: str) -> None:
    assert len(warnings_with(ODD[words](), words)) == 1
    assert not warnings_with(sound(), words)


@cache
def sound() -> Report:
    return reported(drawn_results(PLAN, loses={}))


def test_many_comparisons_are_named() -> None:
    (warning,) = warnings_with(reported(), "comparisons with strict were tested")
    assert warning.startswith("2 comparisons") and "Holm" in warning


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
    turned = Choice.LEFT, Choice.TIE, Choice.BOTH_BAD
    cast = (
        *(vote(choice, "strict", mars) for choice in (Choice.LEFT, Choice.RIGHT)),
        *(vote(choice, mars, "strict") for choice in turned),
        *(vote(Choice.LEFT, *others) for others in (("strict", "fly"), (mars, "none"))),
    )
    (row,) = reported(cast=cast).votes
    expect(row, rule=mars, wins=2, losses=1, ties=2)
    assert row.share == pytest.approx((2 / 3, *wilson(2, 3)))


def judgement(task: int, at: int, choice: Preferred, judge: str = "last") -> StoredJudgement:
    made = AT + timedelta(seconds=judge == "last")
    return StoredJudgement(task, MARS, bool(at), made, judge, choice, "")


def test_a_judgement_counts_where_both_orders_agree() -> None:
    rule, baseline, tie = Preferred.RULE, Preferred.BASELINE, Preferred.TIE
    every = (rule, rule), (rule, baseline), (baseline, baseline), (rule, rule), (tie, tie)
    judgements = [
        judgement(task, at, one)
        for task, both in enumerate((*every, (rule, tie), (rule,)))
        for at, one in enumerate(both)
    ]
    (row,) = reported(judged=tuple(judgements)).judged
    assert row == VoteRow("MARS θ = 0.9", 2, 1, 3, row.share)
    assert row.share.value == pytest.approx(2 / 3)


def test_verdicts_of_an_earlier_judge_do_not_count() -> None:
    """The last one was stopped: of task 0 it has both orders, of task 1 one."""
    judges = ((0, "last"), (0, "last")), ((1, "last"), (1, "first")), ((2, "first"), (2, "first"))
    judgements = [
        judgement(task, at, Preferred.RULE, judge)
        for both in judges
        for at, (task, judge) in enumerate(both)
    ]
    (row,) = reported(judged=tuple(judgements)).judged
    expect(row, wins=1, losses=0, ties=0)


LARGE = study_plan()


def test_a_failed_run_takes_its_task_out_of_the_pairs_of_its_lane_only() -> None:
    results = drawn_results(LARGE)
    failed = {"status": str(Status.FAILED), "error": "no", "scores": {}}
    results[HARM] = replace(results[HARM], data=results[HARM].data | failed, relative=None)
    report = drawn_report(LARGE, results)
    harm, mars = (row_of(report, lane, temperature=0.0) for lane in (HARM, MARS))
    assert (harm.runs, harm.failed, harm.scores[NUMBERS].scored) == (119, 1, 119)
    expect(mars, runs=120, failed=0)
    assert any("1 run did not complete" in warning for warning in report.warnings)


@pytest.mark.parametrize("tasks", [0, 7])
def test_a_study_that_has_hardly_begun_is_reported_too(tasks: int) -> None:
    report = drawn_report(LARGE, drawn_results(LARGE, tasks=tasks))
    row = row_of(report, MARS, temperature=0.0)
    expect(row, runs=tasks, prompts=tasks)
    assert report.tasks_done == tasks < report.plan.tasks
    assert math.isnan(row.tau.value) == math.isnan(row.same.value) == (tasks == 0)


def test_a_pair_of_runs_counts_before_its_task_is_done() -> None:
    """Both must have ended, and that without drafts."""
    begun = drawn_results(LARGE, tasks=1)
    for without, runs in ((HARM, 1), (MARS, 0), (STRICT, 0), (NONE, 0)):
        report = drawn_report(LARGE, [row for row in begun if row.lane != without])
        assert row_of(report, MARS, temperature=0.0).runs == runs


def test_results_of_another_version_are_refused_in_one_sentence() -> None:
    results = drawn_results(LARGE, tasks=1)
    del results[0].data["wall_s"]
    with pytest.raises(
        ValueError, match="saved by another version of this program; 'wall_s' does not fit"
    ):
        drawn_report(LARGE, results)
