"""Results of studies: saved with their runs or not at all, read as they were saved, tried again
where they failed; judgements."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from storage import Preferred, ResultExists, RunStore
from tests.traces import same
from tests.unit.storage.exports import as_stored, failing
from tests.unit.storage.studying import (
    DATA,
    MARS,
    NONE,
    STRICT,
    OpenTask,
    begun,
    counts,
    judge,
    saved,
    worked_off,
)
from tests.unit.storage.test_roundtrip import HOSTILE
from tests.unit.storage.test_safety import with_impossible_last_token

FAILED = DATA | {"status": "failed", "error": as_stored("".join(HOSTILE))}


def test_failed_save_leaves_nothing(lasting_store: RunStore) -> None:
    at = begun(lasting_store)
    first, second = MARS

    def refused(message: str, lane: int, *result: Any) -> None:
        before = counts(lasting_store)
        with failing(message) as caught:
            saved(lasting_store, at, lane, *result)
        assert counts(lasting_store) == before
        assert isinstance(caught.value, ResultExists) is ("has a result" in message)

    refused("The result was not saved", 0, [first, with_impossible_last_token(second)])
    refused("JSON has no type for object", 0, MARS, {"x": object()})
    saved(lasting_store, at, 0, MARS)
    refused("its prompt is not the prompt of its comparison", 1, [second, first])
    refused("Lane 0 of task 0 of the study has a result; nothing was saved", 0, MARS, FAILED)


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
    assert [result.task for result in lasting_store.results(study_id)] == [0, 0, 1]
    assert [(one.task, one.lane) for one in lasting_store.judgements(study_id)] == [(0, 1), (1, 1)]
    (rest,) = lasting_store.task_results(study_id, 1).values()
    assert (rest.lane, rest.run_ids, rest.relative) == (1, new_runs, None)
    assert set(lasting_store.traces([*failed, *new_runs])) == set(new_runs)
    assert lasting_store.open_tasks(study_id) == (1,)
    saved(lasting_store, at, 0, STRICT)
    lasting_store.finish_task(study_id, 1, {0: {"same": True}, 1: {"same": True}})
    results = lasting_store.results(study_id)[2:]
    assert [(one.task, one.lane, one.data) for one in results] == [(1, n, DATA) for n in (0, 1)]
    records = lasting_store.records(new_runs)
    assert [len(lasting_store.load(each.comparison_id).runs) for each in records] == [2, 2]
