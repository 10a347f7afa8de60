"""Reports of studies with failed, missing and unreadable results."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mars_core.types import Status
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.report.drawn import (
    HARM,
    MARS,
    NONE,
    NUMBERS,
    STRICT,
    drawn_results,
    reported,
    row_of,
    study_plan,
)

PLAN = study_plan()


def test_a_failed_run_takes_its_task_out_of_the_pairs_of_its_lane_only() -> None:
    results = drawn_results(PLAN)
    failed = {"status": str(Status.FAILED), "error": "no", "scores": {}}
    results[HARM] = replace(results[HARM], data=results[HARM].data | failed, relative=None)
    report = reported(PLAN, results)
    harm, mars = (row_of(report, lane, temperature=0.0) for lane in (HARM, MARS))
    assert (harm.runs, harm.failed, harm.scores[NUMBERS].scored) == (119, 1, 119)
    expect(mars, runs=120, failed=0)
    assert any("1 run did not complete" in warning for warning in report.warnings)


@pytest.mark.parametrize("tasks", [0, 7])
def test_a_study_that_has_hardly_begun_is_reported_too(tasks: int) -> None:
    report = reported(PLAN, drawn_results(PLAN, tasks=tasks))
    row = row_of(report, MARS, temperature=0.0)
    expect(row, runs=tasks, prompts=tasks)
    assert any(f"Only {tasks} of {PLAN.tasks} tasks" in warning for warning in report.warnings)
    assert math.isnan(row.tau.value) == math.isnan(row.same.value) == (tasks == 0)


def test_a_pair_of_runs_counts_before_its_task_is_done() -> None:
    """Both must have ended, and that without drafts."""
    begun = drawn_results(PLAN, tasks=1)
    for without, runs in ((HARM, 1), (MARS, 0), (STRICT, 0), (NONE, 0)):
        report = reported(PLAN, [row for row in begun if row.lane != without])
        assert row_of(report, MARS, temperature=0.0).runs == runs


def test_results_of_another_version_are_refused_in_one_sentence() -> None:
    results = drawn_results(PLAN, tasks=1)
    del results[0].data["wall_s"]
    with pytest.raises(
        ValueError, match="saved by another version of this program; 'wall_s' does not fit"
    ):
        reported(PLAN, results)
