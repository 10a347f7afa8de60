"""The line of progress says what is done, how fast, and how long it will take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from evaluation.study.processes import progress_line
from storage import StudyProgress, WorkerProgress

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_pace_and_time_to_go_are_of_this_session() -> None:
    worker = WorkerProgress("host:1:2", 120, NOON, NOON + timedelta(seconds=10), True)
    gone = WorkerProgress("host:2:2", 5, NOON, NOON + timedelta(seconds=1), False)
    line = progress_line(StudyProgress(100, 30, 120, (worker, gone)), 4, 100, 10.0)  # 20 results in 10 s, 280 to go
    assert line.startswith("30/100 tasks:  30%|")
    assert line.endswith("| 120/400 [00:10<02:20,  2.00 results/s, workers: 11.9/s]")
    done = StudyProgress(tasks=2, done=2, results=8, workers=())
    assert progress_line(done, 4, 8, 0.0).endswith("8/8 [00:00<?, ? results/s]")
