"""Bad days of the database: the page has a store that can be written to, one sentence says why, and
nothing is lost or deleted."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from storage import RunStore, Shared, open_or_set_aside, opening, url_of
from storage.journal import WITHOUT_LOCKS
from storage.opening import TemporaryStore
from tests.traces import make_trace
from tests.unit.children import Child
from tests.unit.storage.exports import failing, save

NOT_STORED = "Runs are stored only until the page stops. The database "
NOBODY = 65534


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database file."""
    path = tmp_path_factory.mktemp("good") / "runs.db"
    with RunStore(f"sqlite:///{path}") as store:
        for seed in range(3):
            save(store, make_trace(seed=seed, new_tokens=60))
    return path.read_bytes()


@pytest.fixture
def path(three_runs: bytes) -> Iterator[Path]:
    """A database with three runs, in a folder that nobody else minds and anybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="mars-bad-day-"))
    folder.chmod(0o755)
    (folder / "runs.db").write_bytes(three_runs)
    try:
        yield folder / "runs.db"
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@contextmanager
def opened(path: Path) -> Iterator[tuple[RunStore, str]]:
    store, notice = open_or_set_aside(f"sqlite:///{path}")
    with store:
        yield store, notice


def assert_works(store: RunStore) -> None:
    before = store.count()
    save(store, make_trace(new_tokens=3))
    assert store.count() == before + 1


def damages(content: bytes) -> dict[str, bytes]:
    middle = len(content) // 2 // 4096 * 4096
    return {
        "cut": content[: len(content) * 2 // 3],
        "cut in the first page": content[:1000],
        "overwritten": content[:middle] + b"\xa5" * 4096 + content[middle + 4096 :],
        "overwritten schema": content[:100] + os.urandom(3996) + content[4096:],
        "one bit": bytes(
            byte ^ (0x40 if number == middle else 0) for number, byte in enumerate(content)
        ),
    }


def test_good_missing_and_empty_files_are_opened(path: Path) -> None:
    (path.parent / "empty.db").touch()
    for file, runs in (
        (path, 3),
        (path.parent / "new folder" / "runs.db", 0),
        (path.parent / "empty.db", 0),
    ):
        with opened(file) as (store, notice):
            assert (notice, store.path, store.count()) == ("", file, runs)
            assert_works(store)
        assert {each.name for each in file.parent.glob("runs.db*")} <= {
            "runs.db-journal",
            "runs.db",
        }


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
        ids = store.comparisons()["id"].tolist()
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
        assert len(store.comparisons()) == 1 and store.shares() == ()
        with failing("not valid any more"):
            store.through(token)
        for id_, reason in zip(
            ids[:2], ("'exploded' is not among", "Expecting value"), strict=True
        ):
            with failing(f"The comparison {id_} cannot be read: {reason}"):
                store.load(id_)
        assert_works(store)


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "a%b", "a b", "é:x"])
def test_a_path_with_any_character_is_that_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "runs.db"
    store, notice = open_or_set_aside(url_of(path))
    with store:
        assert (store.path, notice) == (path, "")
        assert_works(store)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_question_mark_in_a_url_names_no_other_file(tmp_path: Path) -> None:
    for path in ("a?b/runs.db", "runs.db?timeout=5/x"):
        with failing("write %3F"):
            open_or_set_aside(f"sqlite:///{tmp_path}/{path}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_file_system_that_keeps_no_locks_is_warned_of_and_loses_nothing(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kept: bool,
) -> None:
    """A network share that grants every lock to everybody."""
    if not kept:
        monkeypatch.setattr(fcntl, "fcntl", lambda *_: 0)
    with opened(path) as (store, notice):
        assert (notice, store.path, store.count()) == ("", path, 3)
        assert (store.warning, store.of("anna").warning) == ("" if kept else WITHOUT_LOCKS,) * 2
        assert_works(store)
    assert [each.getMessage() for each in caplog.records] == (
        [] if kept else [f"{WITHOUT_LOCKS} ({path})"]
    )
    assert {each.name for each in path.parent.iterdir()} <= {"runs.db", "runs.db-journal"}


@pytest.mark.parametrize("name", ["runs.db", "new/runs.db"])
def test_a_file_system_without_locks_is_not_taken_for_another_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refused(*_: object) -> None:
        monkeypatch.undo()  # the store of the page is elsewhere
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = path.read_bytes()
    monkeypatch.setattr(fcntl, "fcntl", refused)
    with opened(path.parent / name) as (store, notice):
        assert isinstance(store, TemporaryStore)
        assert notice.startswith(f"{NOT_STORED}could not be opened: [Errno 37] No locks available")
        assert notice.endswith("Move it to a file system with locks, such as that of a local disk.")
        assert_works(store)
    assert path.read_bytes() == before


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


def test_file_that_never_was_a_database_stays_where_it_is(path: Path) -> None:
    letter = path.parent / "letter.txt"
    letter.write_text("Dear reader, " * 500)
    with opened(letter) as (store, notice):
        assert notice.startswith(
            f"{NOT_STORED}could not be opened: file is not a database ({letter})."
        )
        assert_works(store)
    assert letter.read_text() == "Dear reader, " * 500


def test_newer_database_is_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    before = path.read_bytes()
    with opened(path) as (store, notice):
        assert isinstance(store, TemporaryStore)
        assert notice.startswith(
            f"{NOT_STORED}has the schema '9999', which this version of MARS Playground does not know"
        )
        assert_works(store)
        store.of("anna").close()  # the store of one owner ends nothing of the others'
        assert store.count() == 1
        temporary = store.path
        assert temporary and temporary.exists()
        assert store.location == "a temporary file"
    assert not temporary.parent.exists()
    assert path.read_bytes() == before
    assert {each.name for each in path.parent.iterdir()} == {"runs.db"}


@contextmanager
def without_rights() -> Iterator[None]:
    """As root every file can be written: be nobody meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("file", "folder", "words"),
    [
        (0o444, 0o777, "writable"),
        (0o666, 0o555, "writable"),
        (0o444, 0o555, "writable"),
        (0o000, 0o555, "Check that the path"),
        (0o666, 0o555, "malformed"),
        (None, 0o555, "writable"),
    ],
    ids=["file", "folder", "both", "not to be read", "damaged", "no folder"],
)
def test_database_without_rights_is_left_as_it_is(
    path: Path, file: int | None, folder: int, words: str
) -> None:
    """Also a damaged one, which cannot be moved aside."""
    if words == "malformed":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "PRAGMA journal_mode = DELETE"
            )  # as once; with a WAL nothing could be read there
        path.write_bytes(damages(path.read_bytes())["cut"])
    path.chmod(file or 0o000)
    path.parent.chmod(folder)
    before = path.read_bytes()
    wanted = path.parent / "new" / "runs.db" if file is None else path
    with without_rights(), opened(wanted) as (store, notice):
        assert notice.startswith(NOT_STORED) and words in notice
        assert len(notice.splitlines()) == 1
        assert isinstance(store, TemporaryStore)
        assert_works(store)
    assert path.read_bytes() == before
    assert {each.name for each in path.parent.iterdir()} <= {"runs.db", "runs.db-journal"}
