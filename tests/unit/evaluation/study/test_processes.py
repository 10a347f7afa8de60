"""The line of progress says what is done, how fast, and how long it will take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from evaluation.study import processes
from storage import StudyProgress, WorkerProgress

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _state(results: int) -> StudyProgress:
    worker = WorkerProgress("host:1:2", results, NOON, NOON + timedelta(seconds=10), True)
    gone = WorkerProgress("host:2:2", 5, NOON, NOON + timedelta(seconds=1), False)
    return StudyProgress(tasks=100, done=results // 4, results=results, workers=(worker, gone))


def test_pace_and_time_to_go_are_of_this_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(processes.time, "monotonic", lambda: clock[0])
    pace = processes.Pace()
    first = pace.line(_state(100), lanes=4)
    assert first == "25/100 tasks · 100 results · 1 worker: 9.9/s"
    clock[0] += 10
    assert (
        pace.line(_state(120), lanes=4)
        == "30/100 tasks · 120 results · 2 results/s · about 3 min to go · 1 worker: 11.9/s"
    )


def test_a_finished_study_has_nothing_to_go() -> None:
    done = StudyProgress(tasks=2, done=2, results=8, workers=())
    assert processes.Pace().line(done, lanes=4) == "2/2 tasks · 8 results"
