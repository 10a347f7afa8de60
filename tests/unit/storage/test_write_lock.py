"""The lock of writers: one at a time among processes, the one that waits comes next, and nothing that was removed stays in the WAL."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mars_core.types import PromptConfig
from storage import RunStore, StorageError
from storage.write_lock import acquire, lock_file, mount_of
from tests.traces import make_trace, same
from tests.unit.storage.exports import save

ROOT = Path(__file__).parents[3]
# Takes the lock, says so in a file, and ends when told to, or is killed.
HOLDER = """
import os, sys
from pathlib import Path
sys.path.insert(0, "storage")  # the package takes seconds to import
from write_lock import acquire
held = acquire(Path(sys.argv[1]), 30)
Path(sys.argv[2]).touch()
sys.stdin.readline()
os.close(held)
"""
# Threads that write and read at once, with one store.
CROWD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from storage import RunStore
from tests.traces import make_trace, same

url, first = sys.argv[1], int(sys.argv[2])

def write(seed):
    trace = make_trace(seed=seed, new_tokens=30)
    store.save_run(store.new_comparison(trace.config.prompt), trace, lane=0, order=0)

def read(_):
    for comparison_id in store.comparisons(limit=3)["id"]:
        for run in store.load(comparison_id).runs:
            assert same(run.trace, make_trace(seed=run.trace.config.seed, new_tokens=30))

with RunStore(url) as store, ThreadPoolExecutor(8) as pool:
    list(pool.map(lambda number: (write, read)[number % 2](first + number // 2), range(24)))
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, text=True
    )


def await_file(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.002)
    assert path.exists()


def is_next_taken(lock: Path) -> bool:
    """Whether another process waits as the next one."""
    with lock.open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_one_process_at_a_time_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    lock, had = tmp_path / "runs.db-lock", tmp_path / "had"
    with start(HOLDER, lock, had) as other:
        await_file(had)
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            acquire(lock, 0.01)
        other.kill()
    os.close(acquire(lock, 1.0))


def test_who_waits_comes_before_who_writes_again(tmp_path: Path) -> None:
    lock, had = tmp_path / "runs.db-lock", tmp_path / "had"
    mine = acquire(lock, 1.0)
    with start(HOLDER, lock, had) as other:
        until = time.monotonic() + 60
        while not is_next_taken(lock) and time.monotonic() < until:
            time.sleep(0.002)
        os.close(mine)
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
        mine = acquire(lock, 60.0)
        assert had.exists()
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


def test_lock_that_cannot_be_had_is_said(sqlite_store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.database.BUSY_TIMEOUT_S", 0.01)
    held = acquire(Path(f"{sqlite_store.path}-lock"), 1.0)
    message = r"The comparison was not saved: database is locked \(.*runs.db\)\. Another program is writing to it"
    with pytest.raises(StorageError, match=message):
        sqlite_store.new_comparison(PromptConfig("x"))
    os.close(held)
    sqlite_store.new_comparison(PromptConfig("x"))


def test_what_was_removed_is_in_no_file(sqlite_store: RunStore) -> None:
    sqlite_store.of("anna").new_comparison(PromptConfig("a secret of anna"))
    assert sqlite_store.path is not None
    files = [Path(f"{sqlite_store.path}{side}") for side in ("", "-wal")]
    assert any(b"a secret of anna" in file.read_bytes() for file in files)
    sqlite_store.of("anna").delete_everything()
    assert not any(b"a secret of anna" in file.read_bytes() for file in files)


def test_wal_stays_small_while_others_read(sqlite_store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.writers.LARGE_WAL", 100_000)
    monkeypatch.setattr("storage.writers.CHECKPOINT_EVERY_S", 0.0)
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
    with RunStore(url) as store:
        crowd = [start(CROWD, url, 100 * number) for number in range(3)]
        for each in crowd:
            each.communicate(timeout=120)
        assert [each.returncode for each in crowd] == [0, 0, 0]
        loaded = [store.load(id_).runs[0].trace for id_ in store.comparisons(limit=100)["id"]]
    seeds = sorted(trace.config.seed for trace in loaded)
    assert seeds == [100 * number + seed for number in range(3) for seed in range(12)]
    assert all(same(trace, make_trace(seed=trace.config.seed, new_tokens=30)) for trace in loaded)


def disk(point: object, kind: str) -> SimpleNamespace:
    return SimpleNamespace(mountpoint=str(point), fstype=kind)


def test_mount_of_a_path_is_the_deepest_and_the_last() -> None:
    mounts = [
        disk("/", "ext4"),
        disk("/a disk", "ext4"),
        disk("/a disk/net", "nfs4"),
        disk("/twice", "ext4"),
        disk("/twice", "9p"),
    ]
    kinds = {"/none": "ext4", "/a disk/b": "ext4", "/a disk/net/b": "nfs4", "/a disk/network": "ext4", "/twice": "9p"}
    assert {folder: mount_of(Path(folder), mounts).fstype for folder in kinds} == kinds


def test_no_lock_where_the_disk_is_not_known_to_be_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_file(tmp_path / "runs.db") == tmp_path / "runs.db-lock"
    for mounts in ([], [disk("/", "nfs")]):
        monkeypatch.setattr("psutil.disk_partitions", lambda mounts=mounts, **_: mounts)
        assert lock_file(tmp_path / "runs.db") is None
