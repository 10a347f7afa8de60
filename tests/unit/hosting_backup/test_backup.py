"""What was backed up comes back, whatever happened meanwhile; what was deleted does not."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hosting.backup import repository, service
from storage import RunStore, Search
from tests.data.release import OWNER, contents
from tests.traces import make_trace
from tests.unit.hosting_backup.conftest import REPO, Page
from tests.unit.hosting_backup.hub import TOKEN, Fault, Hub, Repo
from tests.unit.storage.damage import damaged_rows
from tests.unit.storage.exports import save as save_traces

Open = Callable[..., Page]
EMPTY = [".gitattributes", "README.md"]


def save(store: RunStore, prompt: str, runs: int = 1) -> str:
    return save_traces(
        store, *(make_trace(new_tokens=5, seed=seed, prompt=prompt) for seed in range(runs))
    )


def commits(hub: Hub) -> int:
    return hub.now().calls.count("create_commit")


def repo_of(hub: Hub) -> Repo:
    return hub.now().repos[REPO]


def files_of(hub: Hub) -> list[str]:
    return sorted(repo_of(hub).files)


def everything_stored(hub: Hub) -> bytes:
    """All that the Hub still has of the repository: its history and its storage of large files."""
    repo = repo_of(hub)
    held = [content for _, files in repo.commits for content in files.values()]
    return b"\n".join([*held, *repo.stored.values()])


def test_everything_comes_back_as_it_was_and_what_has_not_changed_is_not_pushed_again(
    every_kind: str, tmp_path: Path, hub: Hub, page: Open
) -> None:
    first = page(every_kind)
    assert "The existing database is used" in first.notice
    before = first.rows
    assert all(before.values()), "a table without rows is not tested"
    assert first.push() == "" and first.backup.pushed_at
    pushed = commits(hub)
    assert first.push() == "" and commits(hub) == pushed
    second = page("second")
    assert second.notice == f"Restored from the dataset repository {REPO}; comparisons: 20."
    assert second.rows == before
    assert contents(second.store) == contents(first.store)
    for text in ("STRASSE", "task", "name"):
        totals = [store.find(Search(text=text)).total for store in (first.store, second.store)]
        assert totals[0] == totals[1] > 0
    assert contents(second.store.of(OWNER)) == contents(first.store.of(OWNER))
    left = {path.name for path in (tmp_path / "second").iterdir() if path.name[0] == "."}
    assert left == {".runs.db.pushed"}
    here = second.store.matching_ids(Search(limit=1000))
    second.store.annotate(here[0], name="later", tags=["new"], comment="")
    second.store.delete(here[1])
    save(second.store, "new", runs=2)
    assert second.push() == "" and files_of(hub) == [*EMPTY, "runs.db"]
    assert page("third").rows == second.rows


def test_deleted_things_leave_files_history_and_storage(
    every_kind: str, hub: Hub, page: Open
) -> None:
    first = page(every_kind)
    mine = first.store.of("somebody")
    save(mine, "very private words", runs=2)
    first.push()
    assert b"very private words" in everything_stored(hub)
    assert mine.delete_everything() == 1
    assert first.push() == ""
    assert b"very private words" not in everything_stored(hub)
    assert len(repo_of(hub).commits) == len(repo_of(hub).stored) == 1
    assert page("second").rows == first.rows


def test_of_two_pages_that_push_neither_loses_what_it_has(
    hub: Hub, page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = page("one")
    save(one.store, "of both")
    one.push()
    other = page("other")
    save(one.store, "of one")
    save(other.store, "of the other")
    look = repository.Repository.look

    def late(self: Any) -> Any:
        """The other page commits between a look and the commit."""
        head = look(self)
        monkeypatch.setattr(repository.Repository, "look", look)
        assert other.push() == ""
        return head

    monkeypatch.setattr(repository.Repository, "look", late)
    assert one.push() == ""
    assert page("third").prompts == ["of both", "of one"]
    (aside,) = [name for name in files_of(hub) if name.startswith("other-")]
    assert b"of the other" in repo_of(hub).files[aside]


def test_a_page_that_could_not_restore_leaves_the_backup_as_it_is(hub: Hub, page: Open) -> None:
    first = page("first")
    save(first.store, "before")
    first.push()
    hub.fail("dataset_info", *[Fault(status=503)] * 3)
    second = page("second")
    assert "answered with HTTP 503." in second.notice
    save(second.store, "meanwhile")
    assert second.push() == ""
    assert page("third").prompts == ["before"]
    (aside,) = [name for name in files_of(hub) if name.startswith("other-")]
    assert b"meanwhile" in repo_of(hub).files[aside]
    second.store.close()
    again = page("second")  # it has forgotten that it could not
    save(again.store, "later")
    assert again.push() == "" and len(files_of(hub)) == 5
    assert b"before" in everything_stored(hub)


def test_a_push_that_fails_is_made_up_for_and_no_token_is_told(hub: Hub, page: Open) -> None:
    first = page("first")
    save(first.store, "a prompt")
    for call, status in (("create_commit", 401), ("create_repo", 403), ("dataset_info", 500)):
        hub.fail(call, Fault(status))
        problem = first.push()
        assert problem.startswith("The backup was not pushed: ") and f"HTTP {status}" in problem
        assert TOKEN not in problem and files_of(hub) == [".gitattributes"]
    with hub.known() as known:
        known.token = "hf_a_new_one"  # the page's has expired
    sentence = "the token may not read and write the dataset repository mars/backup (HTTP 401)."
    assert first.push() == f"The backup was not pushed: {sentence}"
    assert page("second").notice == f"The backup was not restored: {sentence}"
    with hub.known() as known:
        known.token = TOKEN
    assert first.push() == ""
    assert page("third").prompts == ["a prompt"]


def test_a_repository_that_is_not_for_backups_is_refused(hub: Hub, page: Open) -> None:
    for number, (name, private, sentence) in enumerate(
        (
            ("runs.db", False, "is public"),
            ("train.parquet", True, "holds other files"),
            ("data/runs/00000001-20261121T000000Z.parquet", True, "holds other files"),
        )
    ):
        with hub.known() as known:
            known.repos[REPO] = Repo(private)
            known.repos[REPO].commit({name: b"data"})
        first = page(f"{number}")
        assert sentence in first.notice
        save(first.store, "a prompt")
        assert sentence in first.push()
        assert repo_of(hub).files == {name: b"data"}


def test_a_file_that_is_damaged_or_newer_leaves_no_database(
    first: Page, hub: Hub, page: Open, tmp_path: Path
) -> None:
    original, newer = repo_of(hub).files["runs.db"], tmp_path / "newer.db"
    newer.write_bytes(original)
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for content, sentence in (
        (original[:-5000], "malformed"),
        (newer.read_bytes(), "Update the app"),
    ):
        with hub.known() as known:
            known.repos[REPO].commit({"runs.db": content})
        assert sentence in page(f"{len(content)}").backup.problem
    with hub.known() as known:
        known.repos[REPO].commit({"runs.db": original})
    assert page("last").rows == first.rows


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("runs.db-journal", "of a lost database is there"),
        ("runs.db-wal", "of a lost database is there"),
        ("runs.db", "meanwhile"),
    ],
)
def test_a_restore_changes_no_file_that_is_there(
    tmp_path: Path, page: Open, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    """A journal, which would be applied to the restored database, or a database that another
    program created meanwhile."""
    target, before = tmp_path / "second" / "runs.db", []
    fetch = repository.Repository.fetch

    def meanwhile(*args: Any) -> Path:
        if not before:
            shutil.copy(tmp_path / "first" / "runs.db", target.with_name(name))
            before.append(target.with_name(name).read_bytes())
        return fetch(*args)

    backup = page("other").backup
    monkeypatch.setattr(repository.Repository, "fetch", meanwhile)
    backup._database, backup._folder = target, target.with_name(".backup")
    target.parent.mkdir()
    assert sentence in backup.restore()
    assert [target.with_name(name).read_bytes()] == before
    assert [path.name for path in target.parent.iterdir() if path.is_file()] == [name]


@pytest.mark.usefixtures("first")
def test_an_abandoned_restore_touches_nothing(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved meanwhile stays, though the thread goes on."""
    may, fetch = threading.Event(), repository.Repository.fetch

    def late(*args: Any) -> Path:
        may.wait(60)
        return fetch(*args)

    monkeypatch.setattr(repository.Repository, "fetch", late)
    monkeypatch.setattr(service.Backup.restore, "__defaults__", (0.1,))
    second = page("second")
    assert (
        second.notice
        == f"The backup was not restored: the dataset repository {REPO} took too long."
    )
    save(second.store, "meanwhile")
    threads = [thread for thread in threading.enumerate() if thread.name == "backup"]

    def files() -> dict[Path, bytes]:
        folder = second.backup._database.parent
        return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    before, problem = files(), second.backup.problem
    may.set()
    for thread in threads:
        thread.join(60)
    assert files() == before and second.backup.problem == problem
    assert second.store.count() == 1


def test_rows_that_are_damaged_are_backed_up_as_they_are(
    every_kind: str, tmp_path: Path, page: Open
) -> None:
    first = page(every_kind)
    first.store.close()
    assert damaged_rows(tmp_path / every_kind / "runs.db") > 5
    again = page(every_kind)
    assert again.push() == ""
    copied = tmp_path / "second" / "runs.db"
    page("second")
    dumps = []
    for path in (tmp_path / every_kind / "runs.db", copied):
        with closing(sqlite3.connect(path)) as connection:
            connection.text_factory = bytes
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            dumps.append(
                {
                    name: connection.execute(f"SELECT * FROM [{name.decode()}]").fetchall()
                    for (name,) in names
                }
            )
    assert dumps[0] == dumps[1]


def test_a_database_that_cannot_be_read_to_its_end_replaces_no_backup(
    first: Page, tmp_path: Path, hub: Hub, page: Open
) -> None:
    good = repo_of(hub).files["runs.db"]
    save(first.store, "another prompt")
    path = tmp_path / "first" / "runs.db"
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'runs'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(bytes(16))
    again = page("first")
    assert "is pushed as damaged.db, beside an older runs.db" in again.push()
    assert files_of(hub) == [*EMPTY, "damaged.db", "runs.db"]
    assert repo_of(hub).files["runs.db"] == good
