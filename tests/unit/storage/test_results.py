"""Results of studies: saved with their runs or not at all, read as they were saved, tried again
where they failed; judgements."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storage import Preferred, RunStore
from tests.traces import same
from tests.unit.storage.exports import as_stored
from tests.unit.storage.studying import (
    DATA,
    MARS,
    NONE,
    STRICT,
    OpenTask,
    begun,
    judge,
    saved,
    worked_off,
)
from tests.unit.storage.test_roundtrip import HOSTILE

FAILED = DATA | {"status": "failed", "error": as_stored("".join(HOSTILE))}


def test_deleted_comparisons_leave_the_results(lasting_store: RunStore) -> None:
    at = begun(lasting_store)
    first = saved(lasting_store, at, 0, STRICT)
    comparisons = [record.comparison_id for record in lasting_store.records(first)]
    for comparison_id in comparisons:
        lasting_store.delete(comparison_id)
    saved(lasting_store, at, 1, MARS)  # joins them
    assert lasting_store.traces([*first, "0" * 32]).keys() == set(first)  # until they are purged
    lasting_store.restore(comparisons[1])
    assert len(lasting_store.load(comparisons[1]).runs) == 2
    lasting_store.purge(datetime.now(UTC) + timedelta(days=1))
    third = saved(lasting_store, at, 2, NONE)  # replaces what is gone
    lasting_store.finish_task(at.study_id, 0, {})
    assert [result.data for result in lasting_store.results(at.study_id)] == [DATA] * 3
    again = [record.comparison_id for record in lasting_store.records(third)]
    assert again[0] not in comparisons and again[1] == comparisons[1]
    results = lasting_store.traces([*first, *third])
    assert results.keys() == {first[1], *third}
    assert all(same(results[id_], trace) for id_, trace in zip(third, NONE, strict=True))


def test_failed_lanes_are_tried_again(lasting_store: RunStore) -> None:
    study_id = lasting_store.new_study("", {}, 2)
    worked_off(lasting_store, study_id)
    at = OpenTask(study_id, 1)
    failed = saved(lasting_store, at, 0, STRICT, FAILED)
    new_runs = saved(lasting_store, at, 1, MARS)
    lasting_store.finish_task(study_id, 1, {0: {"same": True}, 1: {"same": False}})
    for task, lane in ((0, 1), (1, 0), (1, 1)):
        judge(lasting_store, study_id, task, lane, Preferred.TIE)
    assert (lasting_store.reopen_failed(study_id), lasting_store.reopen_failed(study_id)) == (1, 0)
    assert [(one.task, one.lane) for one in lasting_store.judgements(study_id)] == [(0, 1), (1, 1)]
    (rest,) = lasting_store.task_results(study_id, 1).values()
    assert (rest.lane, rest.run_ids, rest.relative) == (1, new_runs, None)
    assert set(lasting_store.traces([*failed, *new_runs])) == set(new_runs)
    assert lasting_store.open_tasks(study_id) == (1,)
    saved(lasting_store, at, 0, STRICT)
    records = lasting_store.records(new_runs)  # beside which the new ones are
    assert [len(lasting_store.load(each.comparison_id).runs) for each in records] == [2, 2]
