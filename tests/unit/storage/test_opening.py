"""Bad days of the database: the page has a store that can be written to, one sentence says why, and
nothing is lost or deleted."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from storage import open_or_set_aside, url_of
from storage.journal import WITHOUT_LOCKS
from storage.opening import TemporaryStore
from tests.unit.storage.exports import failing
from tests.unit.storage.opening import NOT_STORED, assert_works, damages, opened

NOBODY = 65534


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
