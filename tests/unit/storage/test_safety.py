"""A run is saved completely or not at all, and the database survives what happens to processes and
disks."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from mars_core.types import Trace
from storage import Choice, RunStore, Search, open_or_set_aside
from tests.traces import make_trace, same
from tests.unit.children import Child, dies_at
from tests.unit.storage.exports import csv_of, failing, save
from tests.unit.storage.studying import counts

Action = Callable[[RunStore, str], object]


def save_another(store: RunStore, comparison_id: str) -> None:
    store.save_run(comparison_id, make_trace(seed=2, new_tokens=100), lane=2, order=2)


def vote(store: RunStore, comparison_id: str) -> None:
    store.add_vote(comparison_id, left_lane=0, right_lane=1, choice=Choice.TIE)


def act_and_die(_pipe: object, url: str, statement: str, action: Action, id_: str) -> None:
    """In the middle of a transaction."""
    dies_at(statement, 1)
    action(RunStore(url), id_)


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def seeds_in(store: RunStore) -> list[int]:
    """The seeds of the stored runs; each must be the full trace of its seed."""
    loaded = [store.load(comparison_id) for comparison_id in store.matching_ids(Search(limit=1000))]
    traces = [run.trace for comparison in loaded for run in comparison.runs]
    for trace in traces:
        assert same(trace, make_trace(seed=trace.config.seed, new_tokens=100))
    return sorted(trace.config.seed for trace in traces)


def assert_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize(
    ("statement", "action"),
    [
        ("INSERT INTO runs ", save_another),
        ("INSERT INTO run_traces ", save_another),
        ("UPDATE comparisons", RunStore.delete),
        ("DELETE FROM facets", RunStore.delete),
        ("INSERT INTO votes", vote),
    ],
)
def test_killed_while_it_writes_leaves_none_of_it(url: str, statement: str, action: Action) -> None:
    """And it can be done again: what was killed is no damage."""
    with RunStore(url) as store:
        id_ = save(store, *(make_trace(seed=seed, new_tokens=100) for seed in range(2)))
        before = counts(store), csv_of("votes", store), csv_of("runs", store)
    child = Child(act_and_die, url, statement, action, id_)
    assert (child.rest(), child.process.exitcode) == ([], -signal.SIGKILL)
    if "run_traces" in statement and "sqlite" in url:
        assert Path(f"{file_of(url)}-journal").stat().st_size > 0, (
            "the kill came before the file was touched"
        )
    store, notice = open_or_set_aside(url)
    with store:
        assert (counts(store), csv_of("votes", store), csv_of("runs", store)) == before
        assert (notice, seeds_in(store)) == ("", [0, 1])
        action(store, id_)
        assert (counts(store), csv_of("votes", store)) != before[:2]


def save_until_killed(pipe: Connection, url: str) -> None:
    """Says which comparisons were saved."""
    with RunStore(url) as store:
        while True:
            pipe.send(save(store, make_trace(seed=7, new_tokens=100)))


def test_killed_at_any_time_loses_nothing_that_was_saved(sqlite_url: str, tmp_path: Path) -> None:
    """Every other process knows the database by another name. No part of anything is there."""
    rng, saved = random.Random(3), set[str]()
    (tmp_path / "link.db").symlink_to(file_of(sqlite_url))
    RunStore(sqlite_url).close()
    for number in range(4):
        url = sqlite_url if number % 2 else f"sqlite:///{tmp_path / 'link.db'}"
        child = Child(save_until_killed, url)
        saved |= {child.pipe.recv() for _ in range(3)}
        time.sleep(rng.random() * 0.1)
        child.kill()
        saved |= {*child.rest()}
    store, message = open_or_set_aside(sqlite_url)
    with store:
        ids = set(store.matching_ids(Search(limit=100_000)))
        assert ids >= saved and not message
        traces = [run.trace for id_ in ids for run in store.load(id_).runs]
        assert len(ids) - len(traces) <= 4, "a comparison is created before its run is saved"
        assert all(same(trace, make_trace(seed=7, new_tokens=100)) for trace in traces)
    assert_sound(file_of(sqlite_url))


@contextmanager
def page_limit(pages: int) -> Iterator[None]:
    """Every SQLite connection opened meanwhile has a disk of so many pages."""

    def limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(Engine, "connect", limit)
    try:
        yield
    finally:
        event.remove(Engine, "connect", limit)


def test_full_disk_is_one_sentence_and_harms_nothing(sqlite_url: str) -> None:
    traces = [make_trace(seed=seed, new_tokens=100) for seed in range(10)]
    saved = []
    with (
        page_limit(80),
        RunStore(sqlite_url) as store,
        failing(
            r"not saved: database or disk is full \(.*runs.db\)\. Free some space",
        ),
    ):
        for trace in traces:
            save(store, trace)
            saved.append(trace.config.seed)
    assert saved
    with RunStore(sqlite_url) as store:
        assert seeds_in(store) == saved
        save(store, traces[len(saved)])
        assert seeds_in(store) == [*saved, len(saved)]
    assert_sound(file_of(sqlite_url))


def with_impossible_last_token(trace: Trace) -> Trace:
    last = trace.steps[-1]
    tokens = (*last.tokens[:-1], replace(last.tokens[-1], id=2**70))
    return replace(trace, steps=(*trace.steps[:-1], replace(last, tokens=tokens)))


def test_failed_save_leaves_nothing(store: RunStore) -> None:
    trace = make_trace(new_tokens=100, prompt="a private prompt")
    comparison_id = store.new_comparison(trace.config.prompt)

    def refused(wrong: Trace, message: str) -> None:
        with failing(message) as caught:
            store.save_run(comparison_id, wrong, lane=0, order=0)
        assert not [word for word in ("private", "INSERT", "secret") if word in str(caught.value)]

    refused(with_impossible_last_token(trace), "The run was not saved")
    refused(replace(trace, steps=trace.steps[1:]), "numbered")
    refused(
        make_trace(prompt="another", new_tokens=2), "its prompt is not the prompt of its comparison"
    )
    assert [counts(store)[name] for name in ("comparisons", "runs", "run_traces")] == [1, 0, 0]
    store.save_run(comparison_id, trace, lane=0, order=0)
    refused(trace, "The run was not saved")  # the number is taken
    (run,) = store.load(comparison_id).runs
    assert same(run.trace, trace)
