"""A run is saved whole or not at all, and the database survives what happens to processes and disks."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from mars_core.types import Trace
from storage import RunStore, StorageError, open_or_set_aside
from storage.export.tables import EXPORTS
from tests.traces import make_trace, same
from tests.unit.children import Child, dies_at
from tests.unit.storage.exports import save

TABLES = ("comparisons", "runs", "run_traces")


def save_many(pipe: Connection, url: str, table: str = "", moment: str = "after_cursor_execute") -> None:
    """Saves runs and tells each. With a table's name: kills itself at its second insert, in the middle of a transaction."""
    dies_at(f"INSERT INTO {table} ", 2 if table else 0, moment)
    with RunStore(url) as store:
        for seed in range(200):
            save(store, make_trace(seed=seed, new_tokens=100))
            pipe.send(seed)


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def seeds_in(store: RunStore) -> list[int]:
    """The seeds of the stored runs; each must be the whole trace of its seed."""
    loaded = [store.load(comparison_id) for comparison_id in store.comparisons(limit=1000)["id"]]
    traces = [run.trace for comparison in loaded for run in comparison.runs]
    for trace in traces:
        assert same(trace, make_trace(seed=trace.config.seed, new_tokens=100))
    return sorted(trace.config.seed for trace in traces)


def assert_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize(
    ("table", "moment"), [("runs", "before_cursor_execute"), ("run_traces", "after_cursor_execute")]
)
def test_killed_in_a_save_leaves_the_runs_before_it(sqlite_url: str, table: str, moment: str) -> None:
    child = Child(save_many, sqlite_url, table, moment)
    assert (child.rest(), child.process.exitcode) == ([0], -signal.SIGKILL)
    if table == "run_traces":
        assert Path(f"{file_of(sqlite_url)}-journal").stat().st_size > 0, "the kill came before the file was touched"
    store, said = open_or_set_aside(sqlite_url)
    with store:
        assert (said, seeds_in(store)) == ("", [0])  # what was killed is no damage
    assert_sound(file_of(sqlite_url))


@pytest.mark.parametrize("delay_s", [0.0, 0.017])
def test_killed_at_any_time_loses_no_finished_run(sqlite_url: str, delay_s: float) -> None:
    child = Child(save_many, sqlite_url)
    told = [child.pipe.recv() for _ in range(3)]
    threading.Event().wait(delay_s)
    child.kill()
    told += child.rest()
    with RunStore(sqlite_url) as store:
        seeds = seeds_in(store)
        assert seeds[: len(told)] == told and len(seeds) <= len(told) + 1
        save(store, make_trace(seed=500, new_tokens=100))
        assert seeds_in(store) == [*seeds, 500]
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


def test_full_disk_is_said_and_harms_nothing(sqlite_url: str) -> None:
    traces = [make_trace(seed=seed, new_tokens=100) for seed in range(10)]
    saved = []
    with (
        page_limit(80),
        RunStore(sqlite_url) as store,
        pytest.raises(StorageError, match=r"not saved: database or disk is full \(.*runs.db\)\. Free some space"),
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
        with pytest.raises(StorageError, match=message) as caught:
            store.save_run(comparison_id, wrong, lane=0, order=0)
        assert not [word for word in ("private", "INSERT", "secret") if word in str(caught.value)]

    refused(with_impossible_last_token(trace), "The run was not saved")
    refused(replace(trace, steps=trace.steps[1:]), "numbered")
    refused(make_trace(prompt="another", new_tokens=2), "its prompt is not the prompt of its comparison")
    with store.read() as connection:
        counts = [connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in TABLES]
    assert counts == [1, 0, 0]
    store.save_run(comparison_id, trace, lane=0, order=0)
    refused(trace, "The run was not saved")  # the place is taken
    (run,) = store.load(comparison_id).runs
    assert same(run.trace, trace)


def test_long_export_holds_up_no_writer(sqlite_store: RunStore) -> None:
    trace = make_trace(new_tokens=100)
    comparison_id = save(sqlite_store, trace)
    tokens = EXPORTS["tokens"].tables(sqlite_store)
    first = next(tokens)
    sqlite_store.save_run(comparison_id, trace, lane=1, order=1)
    assert len(first) + sum(map(len, tokens)) == sum(len(step.tokens) for step in trace.steps)
