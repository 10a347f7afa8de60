"""The lock of writers: one at a time among processes, the one that waits comes next, and nothing that was removed stays in the WAL."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from mars_core.types import PromptConfig
from storage import RunStore, Search, Source, StorageError
from storage.runs.comparisons import add_comparison
from storage.write_lock import acquire, lock_file, mount_of
from tests.traces import make_trace, same
from tests.unit.children import Child
from tests.unit.storage.exports import save
from tests.unit.storage.test_owners import make
from tests.unit.storage.test_safety import assert_sound


def hold(pipe: Connection, lock: Path) -> None:
    """Takes the lock when it is told so, says that it has it, and keeps it until it is told to let go."""
    pipe.recv()
    held = acquire(lock, 60)
    pipe.send("had")
    pipe.recv()
    os.close(held)


def crowd(_pipe: object, url: str, first: int) -> None:
    """Threads that write and read at once, with two stores."""

    def write(store: RunStore, seed: int) -> None:
        save(store, make_trace(seed=seed, new_tokens=30))

    def read(store: RunStore, _seed: int) -> None:
        for comparison_id in store.comparisons(limit=3)["id"]:
            for run in store.load(comparison_id).runs:
                assert same(run.trace, make_trace(seed=run.trace.config.seed, new_tokens=30))

    def act(number: int) -> None:
        (write, read)[number % 2](stores[number // 2 % 2], first + number // 2)

    with RunStore(url) as one, RunStore(url) as other, ThreadPoolExecutor(8) as pool:
        stores = (one, other)
        list(pool.map(act, range(24)))


def is_next_taken(lock: Path) -> bool:
    """Whether another process waits as the next one."""
    with lock.open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_one_process_at_a_time_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    lock, other = tmp_path / "runs.db-lock", Child(hold, tmp_path / "runs.db-lock")
    other.pipe.send("take it")
    assert other.pipe.recv() == "had"
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        acquire(lock, 0.01)
    other.kill()
    os.close(acquire(lock, 1.0))


def test_who_waits_comes_before_who_writes_again(tmp_path: Path) -> None:
    lock, other = tmp_path / "runs.db-lock", Child(hold, tmp_path / "runs.db-lock")
    mine = acquire(lock, 1.0)
    other.pipe.send("take it")
    until = time.monotonic() + 60
    while not is_next_taken(lock) and time.monotonic() < until:
        time.sleep(0.002)
    os.close(mine)
    other.pipe.send("let go")
    mine = acquire(lock, 60.0)
    assert other.rest() == ["had"]
    os.close(mine)


def test_writers_hold_the_lock_and_readers_do_not(sqlite_store: RunStore) -> None:
    assert sqlite_store.path is not None
    lock = lock_file(sqlite_store.path)
    assert lock is not None, "tests run on a local disk"
    with sqlite_store.read():
        os.close(acquire(lock, 0.0))
    with sqlite_store._write(""), pytest.raises(sqlite3.OperationalError):
        acquire(lock, 0.0)
    os.close(acquire(lock, 0.0))
    with pytest.raises(ZeroDivisionError), sqlite_store._write(""):
        _ = 1 / 0
    os.close(acquire(lock, 0.0))


def test_a_read_lets_a_writer_of_its_store_go_first(sqlite_store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.connection.WRITERS_FIRST_S", 60.0)
    with ThreadPoolExecutor(1) as pool:
        with sqlite_store._write("") as connection:
            reading = pool.submit(sqlite_store.count)
            with pytest.raises(TimeoutError):
                reading.result(timeout=0.3)
            add_comparison(connection, PromptConfig("x"), Source.COMPARE, "")
        assert reading.result() == 1
    monkeypatch.setattr("storage.connection.WRITERS_FIRST_S", 0.0)
    with sqlite_store._write(""):
        assert sqlite_store.count() == 1, "a read waits for so long only"


def test_lock_that_cannot_be_had_is_said(sqlite_store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.write_lock.BUSY_TIMEOUT_S", 0.01)
    held = acquire(Path(f"{sqlite_store.path}-lock"), 1.0)
    message = r"The comparison was not saved: database is locked \(.*runs.db\)\. Another program is writing to it"
    with pytest.raises(StorageError, match=message):
        sqlite_store.new_comparison(PromptConfig("x"))
    os.close(held)
    sqlite_store.new_comparison(PromptConfig("x"))


def test_what_was_removed_is_in_no_file(sqlite_store: RunStore) -> None:
    """Nor in the index of texts, which is still right."""
    mine, secret = sqlite_store.of("anna"), "a \ua66e\ua66f\ua670 secret"
    make(mine, secret)
    kept = [sqlite_store.new_comparison(PromptConfig(f"a prompt, number {number}")) for number in range(30)]
    assert sqlite_store.path is not None
    files = [Path(f"{sqlite_store.path}{side}") for side in ("", "-wal")]
    assert any(secret.encode() in file.read_bytes() for file in files)
    mine.delete_everything()
    assert not any(secret.encode() in file.read_bytes() for file in files)
    assert sqlite_store.find(Search(text="number 7")).frame["id"].tolist() == [kept[7]]
    assert_sound(sqlite_store.path)


def test_wal_stays_small_while_others_read(sqlite_store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.write_lock.LARGE_WAL", 100_000)
    monkeypatch.setattr("storage.write_lock.CHECKPOINT_EVERY_S", 0.0)
    wal = Path(f"{sqlite_store.path}-wal")
    with sqlite_store.read() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM runs").all()
        while not wal.exists() or wal.stat().st_size < 200_000:
            save(sqlite_store, make_trace(new_tokens=100))
        assert connection.exec_driver_sql("SELECT count(*) FROM runs").scalar_one() == 0, "a state does not change"
    before = sqlite_store.count()
    save(sqlite_store, make_trace(new_tokens=100))
    assert wal.stat().st_size < 100_000
    assert sqlite_store.count() == before + 1


def test_many_writers_and_readers_lose_nothing(url: str) -> None:
    RunStore(url).close()
    children = [Child(crowd, url, 100 * number) for number in range(3)]
    assert [(child.rest(), child.process.exitcode) for child in children] == [([], 0)] * 3
    with RunStore(url) as store:
        loaded = [store.load(id_).runs[0].trace for id_ in store.comparisons(limit=100)["id"]]
    seeds = sorted(trace.config.seed for trace in loaded)
    assert seeds == [100 * number + seed for number in range(3) for seed in range(12)]
    assert all(same(trace, make_trace(seed=trace.config.seed, new_tokens=30)) for trace in loaded)


def disk(point: object, kind: str) -> SimpleNamespace:
    return SimpleNamespace(mountpoint=str(point), fstype=kind)


def test_mount_of_a_path_is_the_deepest_and_the_last() -> None:
    kinds = [("/", "ext4"), ("/a disk", "ext4"), ("/a disk/net", "nfs4"), ("/twice", "ext4"), ("/twice", "9p")]
    mounts = [disk(*each) for each in kinds]
    found = {"/none": "ext4", "/a disk/b": "ext4", "/a disk/net/b": "nfs4", "/a disk/network": "ext4", "/twice": "9p"}
    assert {folder: mount_of(Path(folder), mounts).fstype for folder in found} == found


def test_no_lock_where_the_disk_is_not_known_to_be_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_file(tmp_path / "runs.db") == tmp_path / "runs.db-lock"
    for mounts in ([], [disk("/", "nfs")]):
        monkeypatch.setattr("psutil.disk_partitions", lambda mounts=mounts, **_: mounts)
        assert lock_file(tmp_path / "runs.db") is None
