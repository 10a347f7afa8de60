"""Retention: what is removed, when, and that a failure is not the end of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from hosting import retention
from hosting.retention import Retention

Begin = Callable[..., tuple[Retention, list[datetime], threading.Event]]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Started, with what it was asked to remove; the event is set by the third time. ``broken``: so often it raises first."""

    def start(day_s: float, again_s: float, broken: int = 0) -> tuple[Retention, list[datetime], threading.Event]:
        monkeypatch.setattr(retention, "DAY_S", day_s)
        monkeypatch.setattr(retention, "AGAIN_S", again_s)
        asked, third = list[datetime](), threading.Event()

        def remove(before: datetime) -> int:
            asked.append(before)
            if len(asked) == 3:
                third.set()
            if len(asked) <= broken:
                raise OSError("the disk is full")
            return 4

        found = Retention(remove, 30)
        found.start()
        return found, asked, third

    return start


def test_what_is_older_than_the_days_goes_at_the_start_and_every_so_often_until_stopped(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mars.retention")
    started, asked, third = begin(0.02, 3600.0)
    assert third.wait(5)
    started.stop()
    count = len(asked)
    time.sleep(0.1)
    assert len(asked) == count
    assert abs(asked[-1] - (datetime.now(UTC) - timedelta(days=30))) < timedelta(minutes=1)
    record = caplog.records[0]
    assert (record.getMessage(), vars(record)["count"], vars(record)["where"]) == ("removed", 4, "older than 30 days")


def test_after_a_failure_it_is_tried_again_sooner(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    started, asked, third = begin(3600.0, 0.02, broken=2)
    assert third.wait(5)
    time.sleep(0.1)
    started.stop()
    assert len(asked) == 3
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["not removed"] * 2


def test_stopping_waits_for_nobody_longer_than_asked() -> None:
    let_go, begun = threading.Event(), threading.Event()

    def work(_before: datetime) -> int:
        begun.set()
        let_go.wait(10)
        return 0

    Retention(work, 1).stop()  # before it began
    started = Retention(work, 1)
    started.start()
    assert begun.wait(5)
    began = time.monotonic()
    started.stop(0.05)
    assert time.monotonic() - began < 2
    let_go.set()
