"""A deleted comparison is nowhere and comes back as it was; a purged one is gone with everything
below it."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from mars_core.types import PromptConfig
from storage import Choice, RunStore, Search, StorageError, write_csv
from storage.export.tables import EXPORTS
from tests.traces import make_trace, same
from tests.unit.children import Child, dies_at
from tests.unit.storage.exports import csv_of, parsed, save
from tests.unit.storage.studying import counts

LATER = datetime.now(UTC) + timedelta(days=1)


def two(store: RunStore) -> tuple[str, str]:
    """Two comparisons of two runs, each voted on."""
    ids = [
        save(store, make_trace(seed=n, new_tokens=9), make_trace(seed=n, rule="mars", new_tokens=9))
        for n in (0, 1)
    ]
    for comparison_id in ids:
        store.add_vote(comparison_id, left_lane=0, right_lane=1, choice=Choice.LEFT)
    return ids[0], ids[1]


def test_deleted_comparison_is_nowhere(store: RunStore) -> None:
    remaining, gone = two(store)
    run = store.load(gone).runs[0]
    (vote,) = (vote for vote in store.votes() if vote.comparison_id == gone)
    store.delete(gone)
    assert store.count() == store.find(Search()).total == 1
    assert (
        store.comparisons()["id"].tolist()
        == store.find(Search()).frame["id"].tolist()
        == [remaining]
    )
    assert [vote.comparison_id for vote in store.votes()] == [remaining]
    assert {row["comparison_id"] for name in EXPORTS for row in parsed(csv_of(name, store))} == {
        remaining
    }
    refused: tuple[Callable[[], object], ...] = (
        lambda: store.load(gone),
        lambda: store.delete(gone),
        lambda: store.annotate(gone, name="x"),
        lambda: store.save_run(gone, run.trace, lane=5, order=5),
        lambda: store.add_vote(gone, left_lane=0, right_lane=1, choice=Choice.TIE),
        lambda: write_csv("runs", store, io.BytesIO(), [gone]),
    )
    for action in refused:
        with pytest.raises(StorageError, match="There is no comparison with the id"):
            action()
    with pytest.raises(StorageError, match="There is no run with the id"):
        store.records([run.id])
    with pytest.raises(StorageError, match="There is no vote with the id"):
        store.comment_vote(vote.id, "x")


def test_restored_comparison_is_as_it_was(store: RunStore) -> None:
    _, gone = two(store)
    store.annotate(gone, name="A name", tags=["t"])
    before = (store.load(gone), store.votes(), [csv_of(name, store) for name in EXPORTS])
    store.delete(gone)
    store.restore(gone)
    after = (store.load(gone), store.votes(), [csv_of(name, store) for name in EXPORTS])
    assert same(after[0].runs[0].trace, before[0].runs[0].trace)
    assert (after[0].name, after[0].tags, after[0].created_at) == (
        "A name",
        ("t",),
        before[0].created_at,
    )
    assert after[1:] == before[1:]
    store.restore(gone)  # what is there stays there
    assert store.count() == 2


def test_purge_takes_everything_below(store: RunStore) -> None:
    remaining, gone = two(store)
    trace = store.load(remaining).runs[0].trace
    before = counts(store)
    store.delete(gone)
    assert counts(store) == before | {
        "facets": before["facets"] // 2
    }  # search no longer returns it
    assert store.purge(LATER) == 1
    assert {(before[name], counts(store)[name]) for name in ("comparisons", "votes")} == {(2, 1)}
    assert {(before[name], counts(store)[name]) for name in ("runs", "run_traces")} == {(4, 2)}
    assert same(store.load(remaining).runs[0].trace, trace)
    with pytest.raises(StorageError, match="There is no comparison with the id"):
        store.restore(gone)


def purge_and_die(_pipe: object, url: str) -> None:
    """Before the commit."""
    dies_at("DELETE FROM comparisons", 1)
    RunStore(url).purge(LATER)


def test_killed_in_a_purge_leaves_what_was_deleted(url: str) -> None:
    with RunStore(url) as store:
        trace = make_trace(new_tokens=200)
        gone = save(store, trace)
        store.delete(gone)
        before = counts(store)
    child = Child(purge_and_die, url)
    assert (child.rest(), child.process.exitcode) == ([], -signal.SIGKILL)
    with RunStore(url) as store:
        assert counts(store) == before
        store.restore(gone)
        assert same(store.load(gone).runs[0].trace, trace)


def test_purge_spares_what_was_deleted_later(store: RunStore) -> None:
    first, second, third = (store.new_comparison(PromptConfig(name)) for name in "abc")
    store.delete(first)
    between = datetime.now(UTC)
    store.delete(second)
    assert store.purge(between) == 1
    store.restore(second)
    assert store.comparisons()["id"].tolist() == [third, second]
    assert store.purge(LATER) == 0
