"""A damaged database is moved aside, complete, unless somebody has it open; a damaged row is not."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from storage import RunStore, Search, Shared, open_or_set_aside, opening
from storage.opening import TemporaryStore
from tests.traces import make_trace
from tests.unit.children import Child
from tests.unit.storage.exports import failing, save
from tests.unit.storage.opening import NOT_STORED, assert_works, damages, opened


def asides(path: Path) -> tuple[list[Path], list[bytes]]:
    """Where the database was moved to, and the journals there."""
    moved = sorted(path.parent.glob(f"{path.name}.damaged-*"))
    journals = [each for each in moved if each.name.endswith("-journal")]
    return [each for each in moved if each not in journals], [
        each.read_bytes() for each in journals
    ]


@pytest.mark.parametrize("name", damages(bytes(8192)))
def test_damaged_database_is_moved_aside(path: Path, name: str) -> None:
    """With its journals, and also if that happens twice in a second."""
    damaged = damages(path.read_bytes())[name]
    for times in (1, 2):
        path.write_bytes(damaged)
        Path(f"{path}-journal").write_bytes(b"\x00left behind")  # no hot one: SQLite leaves it
        with opened(path) as (store, notice):
            moved, journals = asides(path)
            assert [aside.read_bytes() for aside in moved] == [damaged] * times
            assert journals == [b"\x00left behind"] * times
            sentence = f"was damaged; it was moved to {moved[-1]}, and a new one was created. "
            assert notice.startswith(f"The database {sentence}")
            assert len(notice.splitlines()) == 1
            assert (store.path, store.count()) == (path, 0)
            assert_works(store)


def test_a_row_that_breaks_a_rule_hides_itself_only(path: Path) -> None:
    """Neither the database nor a list goes with it."""
    with RunStore(f"sqlite:///{path}") as store:
        ids = store.matching_ids(Search(limit=1000))
        token = store.share(Shared.COMPARISON, ids[0])
        save(store, make_trace(new_tokens=3))
    rule = "UPDATE sqlite_schema SET sql = ? WHERE name = 'comparisons'"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        read = "SELECT sql FROM sqlite_schema WHERE name = 'comparisons'"
        (sql,) = connection.execute(read).fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(rule, [sql.replace(" NOT NULL", "")])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE shares SET comparison_id = NULL")
        for at, change in enumerate(
            (
                "runs SET status = 'exploded' WHERE comparison_id = ?",
                "comparisons SET tags = 'no JSON' WHERE id = ?",
                "comparisons SET comment = NULL WHERE id = ?",
            )
        ):
            connection.execute(f"UPDATE {change}", [ids[at]])
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(rule, [sql])
    with closing(sqlite3.connect(path)) as connection:
        assert len(connection.execute("PRAGMA quick_check").fetchall()) == 2
    with opened(path) as (store, notice):
        assert (notice, store.path, store.count()) == ("", path, 4)
        assert len(store.find(Search()).rows) == 1 and store.shares() == ()
        with failing("not valid any more"):
            store.through(token)
        for id_, reason in zip(
            ids[:2], ("'exploded' is not among", "Expecting value"), strict=True
        ):
            with failing(f"The comparison {id_} cannot be read: {reason}"):
                store.load(id_)
        assert_works(store)


def open_it(pipe: Connection, path: Path) -> None:
    """Another program that has the file open."""
    with path.open("rb"):
        pipe.send("open")
        pipe.recv()


def test_a_database_that_a_process_has_open_is_not_moved(path: Path) -> None:
    damaged = damages(path.read_bytes())["overwritten"]
    path.write_bytes(damaged)
    other = Child(open_it, path)
    assert other.pipe.recv() == "open"
    with opened(path) as (store, notice):
        assert isinstance(store, TemporaryStore) and notice.startswith(NOT_STORED)
        assert_works(store)
    assert [each.name for each in path.parent.iterdir()] == [
        "runs.db"
    ] and path.read_bytes() == damaged
    other.kill()
    with opened(path) as (store, notice):
        assert notice.startswith("The database was damaged; it was moved to ")


def move_and_die(_pipe: object, path: Path, number: int) -> None:
    """Killed at a step of moving a database."""
    calls, synced = 0, opening.synced

    def dies(folder: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        synced(folder)

    opening.synced = dies  # type: ignore[attr-defined]
    open_or_set_aside(f"sqlite:///{path}")


@pytest.mark.parametrize(("number", "moved"), [(1, False), (2, True)])
def test_killed_while_it_is_moved_a_database_stays_complete(
    path: Path, number: int, moved: bool
) -> None:
    """With its journal, under one of the names; the next start says where it is."""
    damaged = damages(path.read_bytes())["overwritten schema"]
    path.write_bytes(damaged)
    Path(f"{path}-journal").write_bytes(b"\x00of it")
    child = Child(move_and_die, path, number)
    child.rest()
    assert child.process.exitcode == -signal.SIGKILL and path.exists() is not moved
    with opened(path) as (store, notice):
        ((aside,), _journals) = asides(path)
        assert aside.name in notice and "damaged" in notice
        assert aside.read_bytes() == damaged
        assert Path(f"{aside}-journal").read_bytes() == b"\x00of it"
        assert (store.path, store.count()) == (path, 0)
        assert_works(store)
