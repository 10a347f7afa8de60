"""A bucket has no commits: what is checked before a write, and what remains."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from huggingface_hub import HfApi

from hosting.backup.bucket import BucketRemote
from hosting.backup.manifest import KEPT, NAME
from hosting.backup.remote import RemoteChanged, RemoteError, RemoteRefused
from hosting.backup.writer import NotOurs, Writer
from tests.unit.hosting_backup.bucket_api import BucketApi, failed
from tests.unit.hosting_backup.conftest import Fill, content


def go_on() -> None:
    pass


@pytest.fixture
def api() -> BucketApi:
    return BucketApi()


@pytest.fixture
def remote(api: BucketApi) -> BucketRemote:
    return BucketRemote(cast(HfApi, api), "mars/backup")


@pytest.fixture
def page(remote: BucketRemote, log: logging.Logger) -> Callable[[Path], Writer]:
    return lambda database: Writer(database, remote, log)


def held(api: BucketApi) -> dict[str, bytes]:
    assert api.files is not None
    return api.files


def snapshots(api: BucketApi) -> list[str]:
    return sorted(name for name in held(api) if name != NAME)


def test_what_was_pushed_comes_back(tmp_path: Path, fill: Fill, api: BucketApi, page: Callable[[Path], Writer]) -> None:
    mine = fill(tmp_path / "one" / "runs.db")
    writer = page(mine)
    writer.begin(go_on)
    assert api.private
    for number in range(KEPT + 2):
        fill(mine, f"prompt {number}")
        assert writer.push(go_on) is not None
    assert len(snapshots(api)) == KEPT
    theirs = tmp_path / "two" / "runs.db"
    assert f"Restored {KEPT + 2} comparisons" in page(theirs).begin(go_on)
    assert content(theirs) == content(mine)


@pytest.mark.parametrize(
    ("status", "kind"), [(500, RemoteError), (412, RemoteError), (401, RemoteRefused), (403, RemoteRefused)]
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_push_that_fails_leaves_the_last_manifest_and_the_next_one_works(
    tmp_path: Path,
    fill: Fill,
    api: BucketApi,
    page: Callable[[Path], Writer],
    status: int,
    kind: type[RemoteError],
    after: int,
) -> None:
    """``after``: 0, the upload of the snapshot fails; 1, that of the manifest."""

    def fail() -> None:
        raise failed(status)

    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    writer.push(go_on)
    before = held(api)[NAME]
    fill(database, "second")
    times = 3 if status == 412 else 1  # refused for a change, it is tried again at once
    api.fail("batch_bucket_files", *([None] * after + [fail]) * times)
    with pytest.raises(kind) as told:
        writer.push(go_on)
    assert held(api)[NAME] == before and "secret" not in str(told.value)
    assert writer.push(go_on) is not None


def test_a_write_upon_another_manifest_is_refused(tmp_path: Path, api: BucketApi, remote: BucketRemote) -> None:
    version = remote.read().version
    file = tmp_path / "file.gz"
    file.write_bytes(b"content")
    held(api)[NAME] = b"another"
    with pytest.raises(RemoteChanged):
        remote.write(b"{}", ("snapshots/00000001-0123456789ab.db.gz", file), (), version, go_on)
    assert held(api)[NAME] == b"another"


def test_a_write_that_another_one_followed_is_noticed(api: BucketApi, remote: BucketRemote) -> None:
    """The race that remains: both read, both write; the first finds the second's manifest."""
    version = remote.read().version

    def other() -> None:
        held(api)[NAME] = b"another"

    api.fail("get_bucket_paths_info", None, other)
    with pytest.raises(RemoteChanged):
        remote.write(b"{}", None, (), version, go_on)
    assert held(api)[NAME] == b"another"


def test_of_two_pages_the_second_takes_over_and_no_snapshot_is_lost(
    tmp_path: Path, fill: Fill, api: BucketApi, page: Callable[[Path], Writer]
) -> None:
    old_file = fill(tmp_path / "old" / "runs.db", "first")
    old = page(old_file)
    old.push(go_on)
    new_file = tmp_path / "new" / "runs.db"
    new = page(new_file)
    new.begin(go_on)
    fill(old_file, "second")
    with pytest.raises(NotOurs):
        old.push(go_on)
    fill(new_file, "third")
    assert new.push(go_on) is not None
    assert len(snapshots(api)) == 2


def test_what_interrupted_writes_left_is_removed_and_nothing_else(
    tmp_path: Path, fill: Fill, api: BucketApi, page: Callable[[Path], Writer]
) -> None:
    database = fill(tmp_path / "runs.db")
    writer = page(database)
    for number in range(KEPT + 2):
        fill(database, f"prompt {number}")
        writer.push(go_on)
    before = dict(held(api))
    left = {"snapshots/00000001-0123456789ab.db.gz": b"left"}
    later = {"snapshots/00000999-0123456789ab.db.gz": b"under way", "snapshots/notes.txt": b"", "other/file": b""}
    held(api).update(left | later)
    writer.tidy()
    assert held(api) == before | later


def test_a_public_bucket_is_refused(tmp_path: Path, api: BucketApi, page: Callable[[Path], Writer]) -> None:
    api.files = {}
    with pytest.raises(RemoteRefused, match="is public"):
        page(tmp_path / "runs.db").begin(go_on)
    assert api.files == {}


def test_the_stand_in_takes_no_call_that_the_real_one_would_not(api: BucketApi) -> None:
    with pytest.raises(TypeError):
        api.bucket_info("mars/backup", unknown=True)  # type: ignore[call-arg]
