"""What one page does with its place: what comes back is what was there, and nobody pushes over what he has not got."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hosting.backup import manifest as form
from hosting.backup import writer as module
from hosting.backup.lineage import beside
from hosting.backup.remote import GivenUp, RemoteError, RemoteRefused
from hosting.backup.writer import NotOurs, Writer
from tests.unit.hosting_backup.conftest import Fill, content, prompts
from tests.unit.hosting_backup.folder_remote import FolderRemote, unreachable

HOSTILE = "'); DROP TABLE comparisons; -- \x00 \ud800 ‮ <script>"


def go_on() -> None:
    pass


@pytest.fixture
def page(remote: FolderRemote, log: logging.Logger) -> Callable[[Path], Writer]:
    return lambda database: Writer(database, remote, log)


def entries(remote: FolderRemote) -> tuple[form.Entry, ...]:
    assert remote.manifest is not None
    return form.from_bytes(remote.manifest).entries


def edit(remote: FolderRemote, **changes: Any) -> None:
    """Change fields of the newest entry."""
    said = json.loads(remote.manifest or b"")
    said["snapshots"][0].update(changes)
    (remote.folder / form.NAME).write_text(json.dumps(said))


def test_what_is_restored_is_what_was_there(tmp_path: Path, fill: Fill, page: Callable[[Path], Writer]) -> None:
    mine = fill(tmp_path / "one" / "runs.db", "first", HOSTILE)
    writer = page(mine)
    assert "no backup" in writer.begin(go_on) or "goes on" in writer.begin(go_on)
    assert writer.push(go_on) is not None
    theirs = tmp_path / "two" / "runs.db"
    assert "Restored 2 comparisons" in page(theirs).begin(go_on)
    assert content(theirs) == content(mine)
    assert prompts(theirs)[0] == "first"
    assert [path.name for path in sorted(theirs.parent.iterdir())] == ["runs.db", "runs.db.backup.json"]


def test_an_unchanged_database_is_pushed_once(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    writer = page(fill(tmp_path / "runs.db", "first"))
    assert writer.push(go_on) is not None
    assert writer.push(go_on) is None
    assert remote.calls.count("write") == 1
    again = page(tmp_path / "runs.db")  # the page started again
    again.begin(go_on)
    assert again.push(go_on) is None


def test_the_last_few_are_kept(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    database = fill(tmp_path / "runs.db")
    writer = page(database)
    for number in range(form.KEPT + 3):
        fill(database, f"prompt {number}")
        writer.push(go_on)
    held = entries(remote)
    assert [entry.comparisons for entry in held] == [8, 7, 6, 5, 4]
    assert sorted(entry.name for entry in held) == remote.names


@pytest.mark.parametrize("fault", ["cut", "other bytes", "gone", "bomb", "schema", "no database"])
def test_an_older_whole_snapshot_is_taken_where_the_newest_cannot_be(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote, fault: str
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    writer.push(go_on)
    fill(database, "second")
    writer.push(go_on)
    newest = remote.folder / entries(remote)[0].name
    whole = newest.read_bytes()
    if fault == "cut":
        newest.write_bytes(whole[: len(whole) // 2])
    elif fault == "other bytes":
        newest.write_bytes(gzip.compress(b"x" * entries(remote)[0].bytes))
    elif fault == "gone":
        newest.unlink()
    elif fault == "bomb":
        newest.write_bytes(gzip.compress(bytes(50_000_000)))
    elif fault == "schema":
        edit(remote, schema="9999")
    else:
        text = b"no database at all"
        newest.write_bytes(gzip.compress(text))
        edit(remote, bytes=len(text), sha256=hashlib.sha256(text).hexdigest())
    target = tmp_path / "new" / "runs.db"
    assert "Restored 1 comparison of" in page(target).begin(go_on)
    assert prompts(target) == ["first"]


def test_a_schema_that_only_the_file_tells_is_refused(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    page(database).push(go_on)
    edit(remote, schema=sorted(page(database).schemas)[0])
    with pytest.raises(NotOurs, match="No snapshot"):
        page(tmp_path / "new" / "runs.db").begin(go_on)
    assert not (tmp_path / "new" / "runs.db").exists()


def test_snapshots_of_a_later_version_are_not_pushed_out(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    writer.push(go_on)
    fill(database, "second")
    writer.push(go_on)
    edit(remote, schema="9999")
    target = tmp_path / "new" / "runs.db"
    rolled_back = page(target)
    rolled_back.begin(go_on)
    for number in range(form.KEPT + 1):
        fill(target, f"prompt {number}")
        rolled_back.push(go_on)
    assert [entry.schema for entry in entries(remote)].count("9999") == 1


def test_nothing_is_pushed_where_no_snapshot_can_be_read(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    page(fill(tmp_path / "runs.db", "first")).push(go_on)
    (remote.folder / entries(remote)[0].name).write_bytes(b"")
    target = tmp_path / "new" / "runs.db"
    writer = page(target)
    with pytest.raises(NotOurs, match="nothing is pushed over them"):
        writer.begin(go_on)
    fill(target, "later")
    before = remote.manifest
    with pytest.raises(NotOurs):
        writer.push(go_on)
    assert remote.manifest == before


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"format": 2}', b"[" * 60_000, b"x" * 70_000])
def test_nothing_is_pushed_over_a_manifest_that_cannot_be_read(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote, text: bytes
) -> None:
    (remote.folder / form.NAME).write_bytes(text)
    with pytest.raises(NotOurs, match="cannot be read"):
        page(fill(tmp_path / "runs.db", "first")).push(go_on)
    assert remote.manifest == text


def test_nothing_is_pushed_before_the_place_was_read(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    """The page starts without the Hub, with an empty database; later the Hub is there, and holds what this page has not got."""
    page(fill(tmp_path / "runs.db", "first", "second")).push(go_on)
    before = remote.manifest
    target = tmp_path / "new" / "runs.db"
    writer = page(target)
    remote.fail("read", unreachable, unreachable, unreachable, unreachable)
    with pytest.raises(RemoteError):
        writer.begin(go_on)
    fill(target, "made meanwhile")
    with pytest.raises(RemoteError):
        writer.push(go_on)
    with pytest.raises(NotOurs, match="2 comparisons of which it is not known"):
        writer.push(go_on)
    assert remote.manifest == before and prompts(target) == ["made meanwhile"]


def test_a_place_that_was_empty_is_pushed_to_when_it_can_be_reached(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    target = tmp_path / "runs.db"
    writer = page(target)
    remote.fail("read", unreachable, unreachable, unreachable)
    with pytest.raises(RemoteError):
        writer.begin(go_on)
    fill(target, "made meanwhile")
    assert writer.push(go_on) is not None


def test_the_start_waits_for_a_place_that_fails_once(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    page(fill(tmp_path / "runs.db", "first")).push(go_on)
    remote.fail("read", unreachable)
    remote.fail("fetch", unreachable)
    assert "Restored" in page(tmp_path / "new" / "runs.db").begin(go_on)


def test_a_token_that_is_refused_is_not_tried_again_at_the_start(
    tmp_path: Path, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    def refuse() -> None:
        raise RemoteRefused("The token may not.")

    remote.fail("read", refuse)
    with pytest.raises(RemoteRefused):
        page(tmp_path / "runs.db").begin(go_on)
    assert remote.calls == ["read"]


def test_the_page_that_started_last_writes(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    old_file = fill(tmp_path / "old" / "runs.db", "first")
    old = page(old_file)
    old.push(go_on)
    new_file = tmp_path / "new" / "runs.db"
    new = page(new_file)
    new.begin(go_on)
    fill(old_file, "made by the old page")
    with pytest.raises(NotOurs, match="taken over"):
        old.push(go_on)
    fill(new_file, "made by the new page")
    assert new.push(go_on) is not None
    assert prompts(old_file) == ["first", "made by the old page"]
    assert [entry.comparisons for entry in entries(remote)] == [2, 1]


def test_of_two_pages_that_find_the_place_empty_one_writes(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    one, two = (page(fill(tmp_path / name / "runs.db", name)) for name in ("one", "two"))
    one.begin(go_on)
    two.begin(go_on)
    one.push(go_on)
    with pytest.raises(NotOurs):
        two.push(go_on)
    assert len(entries(remote)) == 1


def test_what_was_pushed_while_a_page_restored_is_fetched_too(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    old_file = fill(tmp_path / "old" / "runs.db", "first")
    old = page(old_file)
    old.push(go_on)

    def push_first() -> None:
        fill(old_file, "second")
        old.push(go_on)

    remote.fail("write", push_first)
    target = tmp_path / "new" / "runs.db"
    page(target).begin(go_on)
    assert prompts(target) == ["first", "second"]


def test_a_push_whose_answer_was_lost_is_found_to_be_there(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    remote.fail("answer", unreachable)
    with pytest.raises(RemoteError):
        writer.push(go_on)
    assert writer.push(go_on) is None  # it is there
    fill(database, "second")
    assert writer.push(go_on) is not None
    assert [entry.comparisons for entry in entries(remote)] == [2, 1]


def test_a_page_killed_after_its_push_goes_on(tmp_path: Path, fill: Fill, page: Callable[[Path], Writer]) -> None:
    database = fill(tmp_path / "runs.db", "first")
    first = page(database)
    first.begin(go_on)
    before = beside(database).read_text()
    first.push(go_on)
    beside(database).write_text(before)  # as if killed before it was noted
    again = page(database)
    again.begin(go_on)
    fill(database, "second")
    assert again.push(go_on) is not None


def test_a_takeover_that_failed_leaves_the_runs_and_is_made_good(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    page(fill(tmp_path / "runs.db", "first")).push(go_on)
    for lost in ("write", "answer"):
        target = tmp_path / lost / "runs.db"
        writer = page(target)
        remote.fail(lost, unreachable)
        assert "Restored" in writer.begin(go_on)
        fill(target, lost)
        assert writer.push(go_on) is not None
    assert len(entries(remote)) == 3


def test_a_file_made_anew_in_its_place_is_not_pushed(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    """As after a damaged database was set aside: what is beside it speaks of another file."""
    database = fill(tmp_path / "runs.db", "first")
    page(database).push(go_on)
    before = remote.manifest
    database.rename(tmp_path / "runs.db.damaged")
    fill(database, "later")
    with pytest.raises(NotOurs):
        page(database).push(go_on)
    assert remote.manifest == before


def test_what_a_database_that_is_gone_left_is_not_applied_to_the_restored_one(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer]
) -> None:
    page(fill(tmp_path / "runs.db", "first")).push(go_on)
    target = tmp_path / "new" / "runs.db"
    target.parent.mkdir()
    journal = target.with_name("runs.db-journal")
    journal.write_bytes(b"of another file")
    page(target).begin(go_on)
    assert not journal.exists() and prompts(target) == ["first"]
    assert [path.read_bytes() for path in target.parent.glob("runs.db-journal.left-*")] == [b"of another file"]


def test_nothing_that_appeared_meanwhile_is_replaced(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    page(fill(tmp_path / "runs.db", "first")).push(go_on)
    target = tmp_path / "new" / "runs.db"
    remote.fail("answer", lambda: fill(target, "made meanwhile") and None)
    with pytest.raises(FileExistsError):
        page(target).begin(go_on)
    assert prompts(target) == ["made meanwhile"]


def test_what_was_given_up_writes_nothing_later(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    def give_up() -> None:
        raise GivenUp("Nobody waits for it any more.")

    with pytest.raises(GivenUp):
        page(fill(tmp_path / "runs.db", "first")).push(give_up)
    assert remote.manifest is None and remote.names == []


def test_old_snapshots_go_though_nothing_changes(
    tmp_path: Path, fill: Fill, page: Callable[[Path], Writer], remote: FolderRemote
) -> None:
    """What a visitor deleted leaves the backup too."""
    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    writer.push(go_on)
    old = datetime.now(UTC) - form.KEPT_FOR - timedelta(minutes=1)
    edit(remote, time=old.isoformat())
    fill(database, "second")
    again = page(database)
    again.begin(go_on)
    again.push(go_on)
    assert [entry.comparisons for entry in entries(remote)] == [2]
    assert len(remote.names) == 1
    again.tidy()
    assert remote.tidied == [[entries(remote)[0].name]]


def test_what_a_killed_page_left_half_made_is_removed(tmp_path: Path, page: Callable[[Path], Writer]) -> None:
    left = tmp_path / ".runs.db.backup-abc"
    left.mkdir()
    (left / "snapshot.db").write_bytes(b"half")
    other = tmp_path / ".other.db.backup-abc"
    other.mkdir()
    page(tmp_path / "runs.db").clean()
    assert not left.exists() and other.exists()


def test_what_was_dropped_is_removed_for_good_once_a_day(
    tmp_path: Path,
    fill: Fill,
    page: Callable[[Path], Writer],
    remote: FolderRemote,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    for number in range(3):
        fill(database, f"prompt {number}")
        writer.push(go_on)
        writer.tidy()
    assert len(remote.tidied) == 1
    monkeypatch.setattr(module, "TIDY_EVERY", timedelta(0))
    fill(database, "next day")
    writer.push(go_on)
    writer.tidy()
    assert len(remote.tidied) == 2
