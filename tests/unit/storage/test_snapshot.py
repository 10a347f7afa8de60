"""A snapshot is the database as it was at one moment, whole, whoever writes meanwhile; what is not whole is refused."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from storage import RunStore, StorageError
from storage.snapshot import check_snapshot, write_snapshot
from tests.traces import make_trace, same
from tests.unit.storage.exports import save

KILLED_WRITER = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA cache_size = 5")
connection.execute("UPDATE tokens SET piece = 'changed'")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with five runs of 100 tokens."""
    path = tmp_path / "a folder" / "runs #1.db"
    with RunStore(f"sqlite:///{path}") as store:
        for seed in range(5):
            save(store, make_trace(seed=seed, new_tokens=100))
    return path


def test_snapshot_holds_every_run(database: Path, tmp_path: Path) -> None:
    made = write_snapshot(database, tmp_path / "copy.db")
    assert (made.path, made.comparisons, made.bytes) == (tmp_path / "copy.db", 5, made.path.stat().st_size)
    assert check_snapshot(made.path) == made
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a folder", "copy.db"]
    with RunStore(f"sqlite:///{made.path}") as store:
        seeds = [store.load(id_).runs[0].trace for id_ in store.comparisons()["id"]]
        assert all(same(trace, make_trace(seed=trace.config.seed, new_tokens=100)) for trace in seeds)
        assert len(seeds) == 5


def test_snapshot_of_an_unchanged_database_is_the_same(database: Path, tmp_path: Path) -> None:
    one, other = (write_snapshot(database, tmp_path / name) for name in ("one.db", "other.db"))
    assert one.sha256 == other.sha256
    with RunStore(f"sqlite:///{database}") as store:
        store.annotate(store.comparisons()["id"][0], name="new")
    assert write_snapshot(database, tmp_path / "one.db").sha256 != other.sha256


@pytest.mark.parametrize("patience_s", [20.0, 0.3])
def test_writers_get_their_turn_and_the_copy_is_whole(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr("storage.snapshot.PAGES_A_STEP", 4)
    monkeypatch.setattr("storage.snapshot.PATIENCE_S", patience_s)
    done, wrote = threading.Event(), list[str]()

    def write() -> None:
        with RunStore(f"sqlite:///{database}") as store:
            while not done.is_set() and (patience_s < 1 or len(wrote) < 10):
                wrote.append(save(store, make_trace(seed=len(wrote), new_tokens=3)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = write_snapshot(database, tmp_path / "copy.db")
    finally:
        at_the_end = len(wrote)
        done.set()
        writer.join()
    assert at_the_end > 1
    assert 5 <= made.comparisons <= 5 + len(wrote)
    assert check_snapshot(made.path) == made


def test_journal_of_a_killed_writer_is_rolled_back(database: Path, tmp_path: Path) -> None:
    whole = write_snapshot(database, tmp_path / "whole.db")
    killed = subprocess.run([sys.executable, "-c", KILLED_WRITER, str(database)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert Path(f"{database}-wal").stat().st_size > 0
    assert write_snapshot(database, tmp_path / "copy.db").comparisons == whole.comparisons
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT count(*) FROM tokens WHERE piece = 'changed'").fetchone() == (0,)


def damages(whole: bytes) -> Iterator[tuple[str, bytes]]:
    page, middle = 4096, len(whole) // 2 // 4096 * 4096
    yield "empty", b""
    yield "random", os.urandom(50_000)
    yield "cut", whole[: len(whole) * 2 // 3]
    yield "cut in a page", whole[: middle + 100]
    yield "overwritten", whole[:middle] + b"\xa5" * page + whole[middle + page :]


def test_damaged_snapshot_is_refused(database: Path, tmp_path: Path) -> None:
    whole = write_snapshot(database, tmp_path / "whole.db").path.read_bytes()
    for name, content in damages(whole):
        path = tmp_path / "damaged.db"
        path.write_bytes(content)
        with pytest.raises(StorageError, match=r"The snapshot is damaged.*damaged\.db"):
            check_snapshot(path)
        assert path.read_bytes() == content, name
        path.unlink()
    with pytest.raises(StorageError, match="The snapshot"):
        check_snapshot(tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()


def test_index_that_has_lost_its_rows_is_damage(database: Path, tmp_path: Path) -> None:
    path = write_snapshot(database, tmp_path / "whole.db").path
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT rootpage FROM sqlite_master WHERE name LIKE 'ix_runs%'").fetchone()
    whole, start = path.read_bytes(), (found[0] - 1) * 4096
    path.write_bytes(whole[:start] + b"\x0a\0\0\0\0\x10\0\0" + bytes(4088) + whole[start + 4096 :])  # an empty leaf
    with pytest.raises(StorageError, match=r"The snapshot is damaged: .*missing from index"):
        check_snapshot(path)


def test_rows_that_refer_to_nothing_are_damage(database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM runs WHERE rowid = 1")
        connection.commit()
    with pytest.raises(StorageError, match="rows refer to rows that are not there"):
        write_snapshot(database, tmp_path / "copy.db")
    assert list(tmp_path.glob("copy*")) == []


def test_newer_snapshot_is_refused(database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    made = write_snapshot(database, tmp_path / "copy.db")  # a backup of what is there
    assert made.schema == "9999"
    with pytest.raises(StorageError, match=r"schema '9999', which this version .* does not know"):
        check_snapshot(made.path)


def test_failed_snapshot_leaves_the_one_before_it(database: Path, tmp_path: Path) -> None:
    before = write_snapshot(database, tmp_path / "copy.db")
    with file_limit(40_000), pytest.raises(StorageError, match="The snapshot was not made: "):
        write_snapshot(database, tmp_path / "copy.db")
    assert check_snapshot(tmp_path / "copy.db") == before
    assert list(tmp_path.glob("*.part*")) == []
    with pytest.raises(StorageError, match=r"The snapshot was not made: .*missing"):
        write_snapshot(tmp_path / "missing.db", tmp_path / "copy.db")
    assert check_snapshot(tmp_path / "copy.db") == before


def test_locked_database_is_said(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.snapshot.PATIENCE_S", 0.01)
    monkeypatch.setattr("storage.snapshot.LONGEST_S", 0.01)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("UPDATE alembic_version SET version_num = version_num")
        with pytest.raises(StorageError, match="The snapshot was not made: database is locked"):
            write_snapshot(database, tmp_path / "copy.db")


@contextmanager
def file_limit(most: int) -> Iterator[None]:
    """No file of this process may grow beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
