"""Judgements: both orders are kept, a later answer replaces an earlier one, and they go with their result."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from storage import Preferred, RunStore, StorageError
from tests.unit.storage.studying import DATA, worked_off
from tests.unit.storage.test_roundtrip import HOSTILE


def test_judgements_are_read_as_they_were_saved(lasting_store: RunStore) -> None:
    study_id, other = (lasting_store.new_study("", {}, 2) for _ in range(2))
    for id_ in (study_id, study_id, other):
        worked_off(lasting_store, id_)
    text = "".join(HOSTILE)
    places = [(1, 1, True), (0, 1, True), (0, 0, False), (0, 1, False)]
    for (task, lane, swapped), choice in zip(places, (*Preferred, Preferred.TIE), strict=True):
        lasting_store.add_judgement(study_id, task, lane, swapped=swapped, judge=text, choice=choice, text=text)
    found = lasting_store.judgements(study_id)
    assert [(one.task, one.lane, one.swapped) for one in found] == sorted(places)
    assert [one.choice for one in found] == [Preferred.TIE, Preferred.TIE, Preferred.BASELINE, Preferred.RULE]
    assert {(one.judge, one.text) for one in found} == {(text, text)}
    assert abs(found[0].created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert lasting_store.judgements(other) == ()


def test_later_judgement_replaces_one_in_the_same_order(lasting_store: RunStore) -> None:
    study_id = lasting_store.new_study("", {}, 1)
    worked_off(lasting_store, study_id)
    for judge, choice in (("one", Preferred.RULE), ("other", Preferred.BASELINE)):
        lasting_store.add_judgement(study_id, 0, 1, swapped=True, judge=judge, choice=choice)
    (found,) = lasting_store.judgements(study_id)
    assert (found.judge, found.choice) == ("other", Preferred.BASELINE)


@pytest.mark.parametrize(("task", "lane"), [(0, 2), (1, 0), (99, 0)])
def test_only_what_has_a_result_is_judged(lasting_store: RunStore, task: int, lane: int) -> None:
    study_id = lasting_store.new_study("", {}, 2)
    worked_off(lasting_store, study_id)
    with pytest.raises(StorageError, match=f"lane {lane} of task {task} of the study has no result"):
        lasting_store.add_judgement(study_id, task, lane, swapped=False, judge="j", choice=Preferred.TIE)


def test_judgements_go_with_what_was_judged(lasting_store: RunStore) -> None:
    study_id = lasting_store.new_study("", {}, 2)
    for status in ("completed", "failed"):
        worked_off(lasting_store, study_id, data=DATA | {"status": status})
    for task in (0, 1):
        lasting_store.add_judgement(study_id, task, 1, swapped=False, judge="j", choice=Preferred.TIE)
    lasting_store.reopen_failed(study_id)
    assert [one.task for one in lasting_store.judgements(study_id)] == [0]
