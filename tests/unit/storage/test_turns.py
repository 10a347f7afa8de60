"""Turns of writers: each waits until its deadline and no longer, whatever happens to others;
nothing that was removed stays in a file."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from mars_core.types import PromptConfig
from storage import RunStore, Search, StorageError
from storage.journal import SIDES
from tests.traces import make_trace, same
from tests.unit.children import Child
from tests.unit.storage.exports import failing, save
from tests.unit.storage.test_owners import make
from tests.unit.storage.test_safety import assert_sound

HANG_S = 60.0  # nothing here waits for so long


def lock_it(pipe: Connection, path: Path, lock: str) -> None:
    """Another program that writes to the file, or is about to."""
    sqlite3.connect(path, isolation_level=None).execute(f"BEGIN {lock}")
    pipe.send("locked")
    pipe.recv()


def crowd(_pipe: object, url: str, first: int) -> None:
    """Threads that write and read at once, with two stores."""

    def write(store: RunStore, seed: int) -> None:
        save(store, make_trace(seed=seed, new_tokens=30))

    def read(store: RunStore, _seed: int) -> None:
        for comparison_id in store.matching_ids(Search(limit=3)):
            for run in store.load(comparison_id).runs:
                assert same(run.trace, make_trace(seed=run.trace.config.seed, new_tokens=30))

    def act(number: int) -> None:
        (write, read)[number % 2](stores[number // 2 % 2], first + number // 2)

    with RunStore(url) as one, RunStore(url) as other, ThreadPoolExecutor(8) as pool:
        stores = (one, other)
        list(pool.map(act, range(24)))


def waits(store: RunStore, threads: int) -> bool:
    """Whether so many threads have their turn or wait for it; after a while in any case."""
    end = time.monotonic() + HANG_S
    while len(store._writing._queue) < threads and time.monotonic() < end:
        time.sleep(0.001)
    return len(store._writing._queue) == threads


def live_on(pipe: Connection, store: RunStore) -> None:
    """A child forked in the middle of a transaction: it uses the store, and lives until a signal
    to end."""
    for use in (store.count, lambda: store.new_comparison(PromptConfig("x"))):
        try:
            use()
        except StorageError as error:
            pipe.send(str(error))
    pipe.recv()


def new(store: RunStore) -> str:
    return store.new_comparison(PromptConfig("x"))


@pytest.fixture(params=[(3,), (99,)], ids=["wal", "rollback"])
def either(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> Iterator[RunStore]:
    """A store with each of the journals."""
    monkeypatch.setattr("storage.journal.WAL_SAFE", request.param)
    with RunStore(sqlite_url) as store:
        yield store


def test_waiting_writers_fail_side_by_side_at_their_deadline(
    either: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is in their way: a thread or another process; it still is when all have failed."""
    monkeypatch.setattr("storage.database.BUSY_TIMEOUT_S", 0.2)
    other = Child(lock_it, either.path, "IMMEDIATE")
    message = r"The comparison was not saved: database is locked \(.*runs.db\)\. Another program is writing to it"

    def fails(_number: int) -> None:
        with failing(message):
            new(either)

    assert other.pipe.recv() == "locked"
    fails(0)
    other.kill()
    with ThreadPoolExecutor(6) as pool, either._write(""):
        list(pool.map(fails, range(6), timeout=HANG_S))
    new(either)


def test_a_writer_on_a_server_waits_until_its_deadline_too(
    postgres_store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.database.BUSY_TIMEOUT_S", 0.2)
    comparison_id = new(postgres_store)
    with RunStore(postgres_store._engine.url.render_as_string(hide_password=False)) as other:
        with other._write("") as connection:
            connection.exec_driver_sql("SELECT * FROM comparisons FOR UPDATE").all()
            with failing(r"not changed: .* lock timeout .*Another program is writing"):
                postgres_store.annotate(comparison_id, name="x")
        postgres_store.annotate(comparison_id, name="x")


def test_writers_come_in_order_and_an_interrupt_leaves_nothing_behind(
    sqlite_store: RunStore,
) -> None:
    order: list[int] = []

    def write(number: int) -> None:
        with sqlite_store._write(""):
            order.append(number)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever had another one

    def interrupt() -> None:
        waits(sqlite_store, 4)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with ThreadPoolExecutor(4) as pool, sqlite_store._write(""):
        for number in range(2):
            pool.submit(write, number)
            assert waits(sqlite_store, 2 + number)
        pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            new(sqlite_store)  # the fourth
        assert waits(sqlite_store, 3)
        pool.submit(write, 2)
        assert waits(sqlite_store, 4)
    assert order == [0, 1, 2] and waits(sqlite_store, 0)


def test_a_forked_child_that_lives_on_is_in_nobodys_way(either: RunStore) -> None:
    """And cannot use the connections of its parent."""
    with either._write(""):
        child = Child(live_on, either)
    for failure in ("The database could not be read", "The comparison was not saved"):
        assert child.pipe.recv().startswith(
            f"{failure}: it was closed, or opened before this process was forked"
        )
    with RunStore(f"sqlite:///{either.path}") as other:
        new(either), new(other)
        assert child.process.is_alive() and either.count() == 2
    child.kill()
    new(either)


def test_a_store_that_was_closed_touches_nothing(store: RunStore) -> None:
    """A thread that uses it later gets an error; nothing is opened again."""
    url = store._engine.url.render_as_string(hide_password=False)
    closed = RunStore(url)
    one = closed.of("anna")
    closed.close()
    for use in (one.count, lambda: new(one), one.delete_everything):
        with failing("it was closed"):
            use()
    assert closed._engine.pool.checkedin() == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("later", ["reader", "writer", "opening"])
def test_what_was_removed_is_in_no_file(either: RunStore, later: str) -> None:
    """Nor in the index of texts, which is still right. If a reader has a WAL still in use, then
    when it or another transaction ends, or the database is opened again."""
    mine, secret = either.of("anna"), "a \ua66e\ua66f\ua670 secret"
    make(mine, secret)
    ids = [
        either.new_comparison(PromptConfig(f"a prompt, number {number}")) for number in range(30)
    ]
    files = [Path(f"{either.path}{side}") for side in ("", *SIDES)]

    def there() -> bool:
        return any(secret.encode() in file.read_bytes() for file in files if file.exists())

    assert there()
    with ExitStack() as stack:
        if files[2].exists():  # with a rollback journal it would wait for the reader
            other = stack.enter_context(RunStore(f"sqlite:///{either.path}"))
            reader = (either if later == "reader" else other).read()
            stack.enter_context(reader).exec_driver_sql("SELECT count(*) FROM runs").all()
            mine.delete_everything()
            assert there()
        else:
            mine.delete_everything()
    if later == "writer":
        new(either)
    elif later == "opening":
        RunStore(f"sqlite:///{either.path}").close()
    assert not there()
    assert either.matching_ids(Search(text="number 7")) == [ids[7]]
    assert either.path
    assert_sound(either.path)


def test_many_writers_and_readers_lose_nothing(url: str, tmp_path: Path) -> None:
    """Of several processes, one of which knows the database by another name."""
    RunStore(url).close()
    urls = [url] * 3
    if "sqlite" in url:
        (tmp_path / "link.db").symlink_to(url.removeprefix("sqlite:///"))
        urls[1] = f"sqlite:///{tmp_path / 'link.db'}"
    children = [Child(crowd, urls[number], 100 * number) for number in range(3)]
    assert [(child.rest(), child.process.exitcode) for child in children] == [([], 0)] * 3
    with RunStore(url) as store:
        loaded = [store.load(id_).runs[0].trace for id_ in store.matching_ids(Search(limit=100))]
    seeds = sorted(trace.config.seed for trace in loaded)
    assert seeds == [100 * number + seed for number in range(3) for seed in range(12)]
    assert all(same(trace, make_trace(seed=trace.config.seed, new_tokens=30)) for trace in loaded)
