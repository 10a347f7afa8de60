"""A deleted comparison is nowhere and comes back as it was; a purged one is gone with everything
below it."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from storage import Choice, RunStore
from tests.traces import make_trace
from tests.unit.children import Child, dies_at
from tests.unit.storage.exports import csv_of, save
from tests.unit.storage.studying import counts

Action = Callable[[RunStore, str], object]


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
