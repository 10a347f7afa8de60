"""Studies: the plan is what was saved, the progress counts what is there, and what is deleted can
be distinguished from the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import (
    Preferred,
    RunStore,
    Search,
    Source,
)
from storage.schema.text import mapped
from tests.traces import same
from tests.unit.storage.exports import as_stored, failing
from tests.unit.storage.studying import (
    OpenTask,
    conversation,
    judge,
    saved,
    worked_off,
)
from tests.unit.storage.test_roundtrip import ANY_TEXT

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def equal(left: object, right: object) -> bool:
    """JSON need not keep the sign of zero, nor the order of names."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    return type(left) is type(right) and (left == right or same(left, right))


def finite(value: Any) -> Any:
    return mapped(value, str, lambda item: item if math.isfinite(item or 0) else str(item))


@settings(max_examples=30)
@given(plan=st.dictionaries(ANY_TEXT, ANY_JSON, max_size=3), name=ANY_TEXT)
def test_any_plan_is_stored(lasting_store: RunStore, plan: dict[str, object], name: str) -> None:
    study = lasting_store.study(lasting_store.new_study(name, plan, 1))
    assert equal(study.plan, as_stored(finite(plan)))
    name = as_stored(name)
    assert (study.name, study.tasks, study.done) == (name.strip(), 1, 0)


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
    put_away = set(everything.frame["id"]) - set(left.frame["id"])
    assert (everything.total - left.total, len(put_away)) == (4, 4)
    with failing("There is no study"):
        lasting_store.results(study_id)
    with failing("There is no study"):
        saved(lasting_store, task, 1)
    assert len(lasting_store.results(remaining)) == 2
    for comparison_id in put_away:
        lasting_store.restore(comparison_id)
    assert lasting_store.find(Search(source=Source.STUDY, limit=100)).total == everything.total


def test_comparisons_of_studies_are_left_out(lasting_store: RunStore) -> None:
    worked_off(lasting_store, lasting_store.new_study("", {}, 1))
    assert Source.STUDY in set(lasting_store.find(Search(limit=100)).frame["source"])
    assert lasting_store.find(Search(without_batches=True)).total == 0
