"""Retention: what is removed, when, and that a failure is not the end of it."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from hosting.retention import Daily, clean

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_what_is_older_than_the_days_goes(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[datetime] = []

    def remove(before: datetime) -> int:
        asked.append(before)
        return 4

    caplog.set_level(logging.INFO, "mars.retention")
    assert clean(remove, 30, NOW) == 4
    assert asked == [datetime(2026, 1, 30, 12, tzinfo=UTC)]
    assert [(record.getMessage(), vars(record)["count"]) for record in caplog.records] == [("removed", 4)]
    clean(remove, 1)
    assert abs(asked[-1] - (datetime.now(UTC) - timedelta(days=1))) < timedelta(minutes=1)


@pytest.mark.parametrize("days", [0, -1])
def test_never_everything(days: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        clean(lambda _before: pytest.fail("removed"), days)


def test_work_at_the_start_and_every_so_often_until_stopped() -> None:
    done, third = [], threading.Event()

    def work() -> None:
        done.append(1)
        if len(done) == 3:
            third.set()

    daily = Daily(work, every_s=0.02, again_s=3600)
    daily.start()
    assert third.wait(5)
    daily.stop()
    count = len(done)
    time.sleep(0.1)
    assert len(done) == count


def test_after_a_failure_it_is_tried_again_sooner(caplog: pytest.LogCaptureFixture) -> None:
    done, third = [], threading.Event()

    def work() -> None:
        done.append(1)
        if len(done) < 3:
            raise OSError("the disk is full")
        third.set()

    daily = Daily(work, every_s=3600, again_s=0.02)
    daily.start()
    assert third.wait(5)
    time.sleep(0.1)
    daily.stop()
    assert len(done) == 3
    assert [record.getMessage() for record in caplog.records] == ["not removed"] * 2


def test_stopping_waits_for_nobody_longer_than_told() -> None:
    let_go, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        let_go.wait(10)

    daily = Daily(work)
    daily.stop()  # before it began
    daily = Daily(work)
    daily.start()
    assert begun.wait(5)
    began = time.monotonic()
    daily.stop(0.05)
    assert time.monotonic() - began < 2
    let_go.set()
