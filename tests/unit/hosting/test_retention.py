"""Retention: what is removed, when, and that a failure is not the end of it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from hosting.retention import AGAIN_S, DAY_S, keep_removing, remove_old
from storage import RunStore, StorageError
from tests.traces import make_trace
from tests.unit.storage.exports import save
from tests.unit.storage.studying import counts

DAY = timedelta(days=1)


def test_what_was_deleted_goes_for_good_after_thirty_days_of_a_page_that_runs_on(
    store: RunStore,
) -> None:
    """At the start nothing is old enough: that it goes all the same is the daily work."""
    deleted, remaining = (save(store, make_trace(prompt=text)) for text in ("deleted", "kept"))
    store.delete(deleted)
    for days, left in ((0, 2), (29, 2), (31, 1), (32, 1)):
        assert remove_old(store, None, datetime.now(UTC) + days * DAY) == DAY_S
        assert counts(store)["comparisons"] == left
    assert store.load(remaining).runs
    with pytest.raises(StorageError):
        store.restore(deleted)


def test_comparisons_whose_process_was_killed_go_after_a_day(store: RunStore) -> None:
    trace = make_trace()
    saved, killed = (store.new_comparison(trace.config.prompt) for _ in range(2))
    store.save_run(saved, trace, lane=0, order=0)
    remove_old(store, None, datetime.now(UTC))
    assert store.count() == 2  # it may have been begun by another process
    remove_old(store, None, datetime.now(UTC) + 2 * DAY)
    assert store.count() == 1 and store.load(saved).runs
    with pytest.raises(StorageError, match="no comparison"):
        store.load(killed)


def test_with_a_limit_all_that_is_older_goes_and_the_log_counts_it(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mars.retention")
    save(store.of("anna"), make_trace())
    for days, left in ((6, 1), (8, 0)):
        remove_old(store, 7, datetime.now(UTC) + days * DAY)
        assert store.count() == left and len(caplog.records) == 1 - left
    (record,) = caplog.records
    removed = (record.getMessage(), vars(record)["count"], vars(record)["where"])
    assert removed == ("removed", 1, "older than 7 days")


def test_after_a_failure_it_is_tried_again_sooner(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def purge(_store: RunStore, _before: datetime) -> int:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(RunStore, "purge", purge)
        assert remove_old(store, None, datetime.now(UTC)) == AGAIN_S
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["not removed"]
    assert remove_old(store, None, datetime.now(UTC)) == DAY_S


def test_it_is_done_until_the_page_ends(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, then after as many seconds as it says."""
    asked, waited = [AGAIN_S, DAY_S], list[float]()

    class Ended(Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return not asked

    monkeypatch.setattr("hosting.retention.remove_old", lambda *_: asked.pop(0))
    keep_removing(store, None, Ended())
    assert waited == [0.0, AGAIN_S, DAY_S]
