"""A run is saved whole or not at all, and the database survives what happens to processes and disks."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from mars_core.types import Trace
from storage import RunStore, StorageError
from storage.export.tables import EXPORTS
from tests.traces import make_trace, same

ROOT = Path(__file__).parents[3]
TABLES = ("comparisons", "runs", "run_traces")

# Saves runs; the cache is small, so that pages reach the file long before the commit. With a table's name: kills itself
# at that table's second insert, which is in the middle of a transaction.
CHILD = """
import os, signal, sys
from sqlalchemy import Engine, event
from storage import RunStore
from tests.traces import make_trace

url, table = sys.argv[1:]
seen = 0

def kill(connection, cursor, statement, *rest):
    global seen
    seen += statement.startswith(f"INSERT INTO {table} ")
    if table and seen == 2:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "connect", lambda connection, record: connection.execute("PRAGMA cache_size = 5"))
event.listen(Engine, "before_cursor_execute" if table == "runs" else "after_cursor_execute", kill)
store = RunStore(url)
for seed in range(200):
    trace = make_trace(seed=seed, new_tokens=100)
    store.save_run(store.new_comparison(trace.config.prompt), trace, lane=0, order=0)
    print(seed, flush=True)
"""


def start(url: str, table: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, url, table]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


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


@pytest.mark.parametrize("table", ["runs", "run_traces"])
def test_killed_in_a_save_leaves_the_runs_before_it(sqlite_url: str, table: str) -> None:
    with start(sqlite_url, table) as child:
        printed = [int(line) for line in child.stdout or ()]
    assert (child.returncode, printed) == (-signal.SIGKILL, [0])
    if table == "run_traces":
        assert Path(f"{file_of(sqlite_url)}-wal").stat().st_size > 0, "the kill came before the file was touched"
    with RunStore(sqlite_url) as store:
        assert seeds_in(store) == [0]
    assert_sound(file_of(sqlite_url))


@pytest.mark.parametrize("delay_s", [0.0, 0.017])
def test_killed_at_any_time_loses_no_finished_run(sqlite_url: str, delay_s: float) -> None:
    with start(sqlite_url) as child:
        assert child.stdout is not None
        printed = [int(child.stdout.readline()) for _ in range(3)]
        threading.Event().wait(delay_s)
        child.kill()
        printed += [int(line) for line in child.stdout if line.endswith("\n")]
    with RunStore(sqlite_url) as store:
        seeds = seeds_in(store)
        assert seeds[: len(printed)] == printed
        assert len(seeds) <= len(printed) + 1
        trace = make_trace(seed=500, new_tokens=100)
        store.save_run(store.new_comparison(trace.config.prompt), trace, lane=0, order=0)
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
            comparison_id = store.new_comparison(trace.config.prompt)
            store.save_run(comparison_id, trace, lane=0, order=0)
            saved.append(trace.config.seed)
    assert saved
    with RunStore(sqlite_url) as store:
        assert seeds_in(store) == saved
        missed = traces[len(saved)]
        store.save_run(store.new_comparison(missed.config.prompt), missed, lane=0, order=0)
        assert seeds_in(store) == [*saved, missed.config.seed]
    assert_sound(file_of(sqlite_url))


def with_impossible_last_token(trace: Trace) -> Trace:
    last = trace.steps[-1]
    tokens = (*last.tokens[:-1], replace(last.tokens[-1], id=2**70))
    return replace(trace, steps=(*trace.steps[:-1], replace(last, tokens=tokens)))


def test_failed_save_leaves_nothing(store: RunStore) -> None:
    trace = make_trace(new_tokens=100, prompt="a private prompt")
    comparison_id = store.new_comparison(trace.config.prompt)
    with pytest.raises(StorageError, match="The run was not saved") as caught:
        store.save_run(comparison_id, with_impossible_last_token(trace), lane=0, order=0)
    assert not [word for word in ("private", "INSERT", "secret") if word in str(caught.value)]
    with store.read() as connection:
        counts = [connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in TABLES]
    assert counts == [1, 0, 0]
    store.save_run(comparison_id, trace, lane=0, order=0)
    assert same(store.load(comparison_id).runs[0].trace, trace)


def test_threads_save_and_read_at_once(url: str) -> None:
    def save(store: RunStore, seed: int) -> str:
        trace = make_trace(seed=seed, new_tokens=100)
        comparison_id = store.new_comparison(trace.config.prompt)
        store.save_run(comparison_id, trace, lane=0, order=0)
        assert same(store.load(comparison_id).runs[0].trace, trace)
        store.comparisons(limit=3)
        return comparison_id

    # Two stores on one database, as two processes would have them.
    with RunStore(url) as one, RunStore(url) as other, ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda seed: save((one, other)[seed % 2], seed), range(16)))
        assert set(one.comparisons(limit=100)["id"]) == set(ids)
        assert seeds_in(one) == list(range(16))


def test_long_export_holds_up_no_writer(sqlite_store: RunStore) -> None:
    trace = make_trace(new_tokens=100)
    comparison_id = sqlite_store.new_comparison(trace.config.prompt)
    sqlite_store.save_run(comparison_id, trace, lane=0, order=0)
    tokens = EXPORTS["tokens"].tables(sqlite_store)
    first = next(tokens)
    sqlite_store.save_run(comparison_id, trace, lane=1, order=1)
    rest = sum(map(len, tokens))
    assert len(first) + rest == sum(len(step.tokens) for step in trace.steps)
