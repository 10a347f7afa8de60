"""A deleted comparison is nowhere and comes back as it was; a purged one is gone with everything
below it."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from storage import Choice, RunStore, Search, write_csv
from storage.export.tables import EXPORTS
from tests.traces import make_trace, same
from tests.unit.children import Child, dies_at
from tests.unit.storage.exports import csv_of, failing, parsed, save
from tests.unit.storage.studying import counts

Action = Callable[[RunStore, str], object]
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
    refused: dict[Callable[[], object], str] = {
        lambda: store.load(gone): "comparison",
        lambda: store.delete(gone): "comparison",
        lambda: store.annotate(gone, name="x"): "comparison",
        lambda: store.save_run(gone, run.trace, lane=5, order=5): "comparison",
        lambda: store.add_vote(gone, left_lane=0, right_lane=1, choice=Choice.TIE): "comparison",
        lambda: write_csv("runs", store, io.BytesIO(), [gone]): "comparison",
        lambda: store.records([run.id]): "run",
        lambda: store.comment_vote(vote.id, "x"): "vote",
    }
    for action, noun in refused.items():
        with failing(f"There is no {noun} with the id"):
            action()


def test_restored_comparison_is_as_it_was(store: RunStore) -> None:
    _, gone = two(store)
    store.annotate(gone, name="A name", tags=["t"])
    before, after = [], []
    for seen in (before, after):
        seen += [repr(store.load(gone)), store.votes(), *(csv_of(name, store) for name in EXPORTS)]
        if seen is before:
            store.delete(gone)
        store.restore(gone)  # what is there stays there
    assert after == before
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
    after = counts(store)
    for name in ("comparisons", "votes", "runs", "run_traces", "facets"):
        assert after[name] == before[name] // 2 > 0
    assert same(store.load(remaining).runs[0].trace, trace)
    with failing("There is no comparison with the id"):
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


def vote(store: RunStore, comparison_id: str) -> None:
    store.add_vote(comparison_id, left_lane=0, right_lane=1, choice=Choice.TIE)


def act_and_die(_pipe: object, url: str, statement: str, action: Action, id_: str) -> None:
    """Before the commit."""
    dies_at(statement, 1)
    action(RunStore(url), id_)


@pytest.mark.parametrize(
    ("statement", "action"),
    [
        ("UPDATE comparisons", RunStore.delete),
        ("DELETE FROM facets", RunStore.delete),
        ("INSERT INTO votes", vote),
    ],
)
def test_killed_in_a_delete_or_a_vote_leaves_none_of_it(
    url: str, statement: str, action: Action
) -> None:
    """And it can be done again."""
    with RunStore(url) as store:
        id_ = save(store, make_trace(new_tokens=9), make_trace(rule="mars", new_tokens=9))
        before = counts(store), csv_of("votes", store), csv_of("runs", store)
    child = Child(act_and_die, url, statement, action, id_)
    assert (child.rest(), child.process.exitcode) == ([], -signal.SIGKILL)
    with RunStore(url) as store:
        assert (counts(store), csv_of("votes", store), csv_of("runs", store)) == before
        action(store, id_)
        assert (counts(store), csv_of("votes", store)) != before[:2]
