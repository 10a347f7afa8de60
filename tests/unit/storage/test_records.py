"""Records: runs as they were saved, without steps and tokens, in the order asked."""

from __future__ import annotations

import pytest

from mars_core.types import PromptConfig, Status
from storage import RunStore, StorageError
from tests.traces import make_trace, make_tree_trace, same
from tests.unit.storage.exports import save
from tests.unit.storage.test_comparisons import statements
from tests.unit.storage.test_roundtrip import HOSTILE, hostile_trace


def test_record_is_the_run_without_its_steps(store: RunStore) -> None:
    traces = (
        make_trace(rule="mars", new_tokens=30, prefix=(1, 2)),
        make_trace(rule="none", new_tokens=0, status=Status.FAILED),
        make_tree_trace(),
    )
    comparison_id = save(store, *traces)
    store.annotate(comparison_id, name="A name")
    runs = store.load(comparison_id).runs
    for record, run, trace in zip(store.records([run.id for run in runs]), runs, traces, strict=True):
        assert (record.id, record.comparison_id, record.lane) == (run.id, comparison_id, run.lane)
        assert (record.name, record.text, record.error) == ("A name", trace.text, trace.error)
        assert (record.status, record.stop_reason) == (trace.status, trace.stop_reason)
        assert same(record.config, trace.config)
        assert same(record.summary, trace.summary)
        assert record.created_at >= store.load(comparison_id).created_at


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_record_is_exact(store: RunStore, text: str) -> None:
    trace = hostile_trace(text)
    (record,) = store.records([store.load(save(store, trace)).runs[0].id])
    assert same((record.config, record.text, record.error), (trace.config, trace.text, trace.error))


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


@pytest.mark.parametrize("missing", ["", "0" * 32, "\x00", "\ud800", "' OR 1=1 --"])
def test_unknown_run_is_named(store: RunStore, missing: str) -> None:
    known = store.load(save(store, make_trace(new_tokens=1))).runs[0].id
    with pytest.raises(StorageError, match="There is no run with the id"):
        store.records([known, missing])
    with pytest.raises(StorageError, match="There is no run with the id"):
        store.records([store.new_comparison(PromptConfig("a comparison is no run"))])
