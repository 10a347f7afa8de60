"""Studies: the progress counts what is there, and what is deleted can be distinguished from the
rest."""

from __future__ import annotations

import pytest

from storage import (
    Preferred,
    RunStore,
    Search,
    Source,
)
from tests.unit.storage.exports import failing
from tests.unit.storage.studying import (
    OpenTask,
    conversation,
    judge,
    saved,
    worked_off,
)


def test_progress_counts_tasks_and_results(lasting_store: RunStore) -> None:
    study_id = lasting_store.new_study("", {}, 5)
    worked_off(lasting_store, study_id)
    saved(lasting_store, OpenTask(study_id, 1, "half"), 1)
    progress = lasting_store.study_progress(study_id)
    assert (progress.tasks, progress.done, progress.results) == (5, 1, 3)
    first, second = (lasting_store.task_results(study_id, 0)[lane].created_at for lane in range(2))
    at = lasting_store.task_results(study_id, 1)[1].created_at
    assert first < second < at
    assert progress.pace == pytest.approx(2 / (at - first).total_seconds())
    assert lasting_store.open_tasks(study_id) == (1, 2, 3, 4)


def test_a_study_is_worked_on_as_long_as_somebody_says_so(lasting_store: RunStore) -> None:
    study_id = lasting_store.new_study("", {}, 5)
    for seconds, working in ((0, False), (60, True), (-1, False), (60, True), (0, False)):
        lasting_store.work_on(study_id, seconds)
        assert lasting_store.study_progress(study_id).working is working


def test_deleted_study_takes_its_comparisons_along(lasting_store: RunStore) -> None:
    remaining, study_id = (
        lasting_store.new_study("kept", {}, 1),
        lasting_store.new_study("deleted", {}, 3),
    )
    worked_off(lasting_store, remaining)
    worked_off(lasting_store, study_id)
    task = OpenTask(study_id, 1)
    saved(lasting_store, task, 0, conversation("mars", ("a", "b")))
    everything = lasting_store.find(Search(source=Source.STUDY, limit=100))
    judge(lasting_store, study_id, 0, 1, Preferred.RULE)
    lasting_store.delete_study(study_id)
    left = lasting_store.find(Search(source=Source.STUDY, limit=100))
    put_away = {row["id"] for row in everything.rows} - {row["id"] for row in left.rows}
    assert (everything.total - left.total, len(put_away)) == (4, 4)
    with failing("There is no study"):
        lasting_store.results(study_id)
    with failing("There is no study"):
        saved(lasting_store, task, 1)
    assert len(lasting_store.results(remaining)) == 2
    for comparison_id in put_away:
        lasting_store.restore(comparison_id)
    assert lasting_store.find(Search(source=Source.STUDY, limit=100)).total == everything.total
