"""Retention: what is removed, when, and that a failure is not the end of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hosting.retention import AGAIN_S, DAY_S, Retention
from storage import RunStore, StorageError
from tests.traces import make_trace
from tests.unit.storage.exports import save


class Clock:
    """Its days pass when somebody waits; after ``times`` waits it is the end."""

    def __init__(self, times: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.time, self.times, self.meanwhile = datetime.now(UTC), times, meanwhile
        self.waited = list[float]()

    def now(self) -> datetime:
        return self.time

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.time += timedelta(seconds=seconds)
        self.meanwhile()
        return len(self.waited) == self.times


def passed(
    store: RunStore,
    times: int,
    days: int | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Clock:
    """A page that ran for so many waits."""
    clock = Clock(times, meanwhile)
    Retention(store, days, clock.now, clock.wait).run()
    return clock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(f"sqlite:///{tmp_path / 'runs.db'}") as opened:
        yield opened


def test_what_was_deleted_goes_for_good_after_thirty_days_of_a_page_that_runs_on(
    store: RunStore,
) -> None:
    """At the start nothing is old enough: that it goes all the same is the daily work."""
    deleted, remaining = (save(store, make_trace(prompt=text)) for text in ("deleted", "kept"))
    store.delete(deleted)
    counts = list[int]()

    def count() -> None:
        with store.read() as connection:
            counts.append(
                connection.exec_driver_sql("SELECT count(*) FROM comparisons").scalar_one()
            )

    assert passed(store, 32, meanwhile=count).waited == [DAY_S] * 32
    assert counts == [2] * 30 + [1] * 2
    assert store.load(remaining).runs
    with pytest.raises(StorageError):
        store.restore(deleted)


def test_comparisons_whose_process_was_killed_go_after_a_day(store: RunStore) -> None:
    trace = make_trace()
    saved, killed = (store.new_comparison(trace.config.prompt) for _ in range(2))
    store.save_run(saved, trace, lane=0, order=0)
    passed(store, 1)
    assert store.count() == 2  # it may have been begun by another process
    passed(store, 3)
    assert store.count() == 1 and store.load(saved).runs
    with pytest.raises(StorageError, match="no comparison"):
        store.load(killed)


def test_with_a_limit_all_that_is_older_goes_and_the_log_counts_it(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mars.retention")
    save(store.of("anna"), make_trace())
    passed(store, 7, days=7)
    assert store.count() == 1 and not caplog.records
    passed(store, 9, days=7)
    assert store.count() == 0
    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["count"], vars(record)["where"]) == (
        "removed",
        1,
        "older than 7 days",
    )


def test_after_a_failure_it_is_tried_again_sooner(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = list[datetime]()

    def purge(_store: RunStore, before: datetime) -> int:
        calls.append(before)
        if len(calls) <= 2:
            raise OSError("the disk is full")
        return 4

    monkeypatch.setattr(RunStore, "purge", purge)
    assert passed(store, 4).waited == [AGAIN_S, AGAIN_S, DAY_S, DAY_S]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "not removed"
    ] * 2


def test_stopping_waits_no_longer_than_its_limit(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def purge(_store: RunStore, _before: datetime) -> int:
        begun.set()
        let_go.wait(120)
        ended.set()
        return 0

    monkeypatch.setattr(RunStore, "purge", purge)
    Retention(store, None).stop()  # before it began
    started = Retention(store, None)
    started.start()
    assert begun.wait(600)
    started.stop(0.05)
    assert not ended.is_set()
    let_go.set()
    started.stop(600)
