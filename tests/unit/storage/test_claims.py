"""Claims: a task has one worker at a time, and one that has lost it writes nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from storage import Claim, ClaimLost, RunStore, StorageError
from tests.traces import make_trace
from tests.unit.storage.studying import DATA, LEASE_S, begun, claimed, counts, run_out, saved
from tests.unit.storage.test_comparisons import plans_of


def test_tasks_are_claimed_once_each_lowest_first(lasting_store: RunStore) -> None:
    study_id = lasting_store.new_study("", {}, 3)
    taken = [lasting_store.claim_task(study_id, f"w{number}\x00", LEASE_S) for number in range(5)]
    assert [claim and claim.task for claim in taken] == [0, 1, 2, None, None]
    assert [(row.task, row.worker) for row in lasting_store.claims(study_id)] == [
        (n, f"w{n}\x00") for n in range(3)
    ]
    now = datetime.now(UTC)
    for row in lasting_store.claims(study_id):
        assert abs(row.claimed_until - now - timedelta(seconds=LEASE_S)) < timedelta(seconds=60)


def test_task_of_a_lease_that_ran_out_is_claimed_again(lasting_store: RunStore) -> None:
    study_id = lasting_store.new_study("", {}, 3)
    first, second = claimed(lasting_store, study_id), claimed(lasting_store, study_id)
    run_out(lasting_store, first)
    again = claimed(lasting_store, study_id, "other")
    assert (again.task, again.token != first.token) == (0, True)
    assert (lasting_store.beat(first, LEASE_S), lasting_store.beat(second, LEASE_S)) == (
        False,
        True,
    )


def test_lost_claim_writes_nothing(lasting_store: RunStore) -> None:
    lost = begun(lasting_store)
    run_out(lasting_store, lost)
    owner = claimed(lasting_store, lost.study_id, "owner")
    before = counts(lasting_store)

    def writes_nothing(claim: Claim) -> None:
        with pytest.raises(ClaimLost, match="Task 0 of the study no longer belongs to this worker"):
            saved(lasting_store, claim)
        with pytest.raises(ClaimLost):
            lasting_store.finish_task(claim, {0: {}})

    writes_nothing(lost)
    lasting_store.release_task(lost)
    assert counts(lasting_store) == before
    assert lasting_store.beat(owner, LEASE_S)
    assert [row.worker for row in lasting_store.claims(lost.study_id)] == ["owner"]
    saved(lasting_store, owner)
    lasting_store.finish_task(owner, {})
    writes_nothing(owner)  # it ends with the task
    assert not lasting_store.beat(owner, LEASE_S)


def test_claim_holds_until_another_takes_the_task(lasting_store: RunStore) -> None:
    late = begun(lasting_store)
    run_out(lasting_store, late)
    saved(lasting_store, late)
    assert lasting_store.beat(late, LEASE_S)
    assert lasting_store.claim_task(late.study_id, "other", LEASE_S) is None
    lasting_store.finish_task(late, {})
    assert lasting_store.claim_task(late.study_id, "other", LEASE_S) is None
    assert lasting_store.claims(late.study_id) == ()


def test_tasks_of_a_worker_that_is_gone_are_taken_from_it(lasting_store: RunStore) -> None:
    study_id, other_study = (lasting_store.new_study("", {}, 4) for _ in range(2))
    claims = [claimed(lasting_store, study_id, worker) for worker in ("gone", "there", "gone")]
    elsewhere = claimed(lasting_store, other_study, "gone")
    assert lasting_store.release_worker(study_id, "gone") == 2
    assert [lasting_store.beat(claim, LEASE_S) for claim in claims] == [False, True, False]
    assert lasting_store.beat(elsewhere, LEASE_S)
    assert [claimed(lasting_store, study_id, "new").task for _ in range(3)] == [0, 2, 3]
    lasting_store.save_result(claims[1], 1, [make_trace(new_tokens=1)], DATA, order=0)
    lasting_store.release_task(claims[1])
    assert claimed(lasting_store, study_id).task == 1
    assert set(lasting_store.task_results(study_id, 1)) == {1}


def test_leases_are_measured_by_the_clock_of_the_server(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host whose clock is years ahead takes nothing from others."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2099, 1, 1, tzinfo=UTC) if tz else datetime(2099, 1, 1)

    with RunStore(postgres_url) as store:
        study_id = store.new_study("", {}, 2)
        claim = claimed(store, study_id)
        monkeypatch.setattr("storage.database.datetime", Ahead)
        assert claimed(store, study_id).task == 1
        assert store.claim_task(study_id, "ahead", LEASE_S) is None
        assert store.beat(claim, LEASE_S)
        assert all(row.claimed_until.year < 2099 for row in store.claims(study_id))


def test_claim_reads_the_index_of_open_tasks(sqlite_store: RunStore) -> None:
    study_id = sqlite_store.new_study("", {}, 500)
    _study, plan = plans_of(sqlite_store, lambda: claimed(sqlite_store, study_id))
    assert plan == ["SEARCH study_tasks USING INDEX ix_study_tasks_open (study_id=?)"]


@pytest.mark.parametrize("lease_s", [0.0, -1.0, math.nan, math.inf, 86_401.0])
def test_lease_out_of_range_is_refused(lasting_store: RunStore, lease_s: float) -> None:
    study_id = lasting_store.new_study("", {}, 1)
    message = f"lease_s is {lease_s:g}; it must be more than 0 and at most 86400 seconds"
    with pytest.raises(StorageError, match=message):
        lasting_store.claim_task(study_id, "w", lease_s)
    with pytest.raises(StorageError, match=message):
        lasting_store.beat(claimed(lasting_store, study_id), lease_s)
