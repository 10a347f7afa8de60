"""Records: runs without steps and tokens, in the order asked; test_roundtrip.py says that they are as they were saved."""

from __future__ import annotations

import pytest

from mars_core.types import Status
from storage import RunStore, StorageError
from tests.traces import make_trace
from tests.unit.storage.exports import save
from tests.unit.storage.test_comparisons import statements


def test_a_record_says_where_its_run_is(store: RunStore) -> None:
    comparison_id = save(store, make_trace(new_tokens=3), make_trace(rule="none", new_tokens=0, status=Status.FAILED))
    store.annotate(comparison_id, name="A name")
    made = store.load(comparison_id)
    for record, run in zip(store.records([run.id for run in made.runs]), made.runs, strict=True):
        assert (record.id, record.comparison_id, record.lane) == (run.id, comparison_id, run.lane)
        assert record.name == "A name" and record.created_at >= made.created_at


def test_order_is_that_asked_for(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.runs.runs.RUNS_A_READ", 2)
    ids = [run.id for seed in range(3) for run in store.load(save(store, make_trace(seed=seed, new_tokens=1))).runs]
    asked = [ids[2], ids[0], ids[2], ids[1]]
    assert [record.id for record in store.records(asked)] == asked
    assert store.records([]) == ()


def test_records_read_no_traces(sqlite_store: RunStore) -> None:
    comparison_id = save(sqlite_store, make_trace(new_tokens=3), make_trace(rule="mars", new_tokens=3))
    ids = [run.id for run in sqlite_store.load(comparison_id).runs]
    with statements() as seen:
        sqlite_store.records(ids)
    assert len(seen) == 1
    assert not any(word in seen[0] for word in ("run_traces", "prompt_ids"))


def test_unknown_run_is_named(store: RunStore) -> None:
    made = save(store, make_trace(new_tokens=1))
    known = store.load(made).runs[0].id
    for missing in ("", "0" * 32, "\x00", "\ud800", "' OR 1=1 --", made):
        with pytest.raises(StorageError, match="There is no run with the id"):
            store.records([known, missing])
