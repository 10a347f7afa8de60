"""huggingface_hub itself against a stand-in of the Hub: what is pushed comes back, and every failure is one sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.utils import _http

from hosting.backup import backup_of
from hosting.backup.dataset import DatasetRemote
from hosting.backup.manifest import KEPT, NAME
from hosting.backup.remote import RemoteChanged, RemoteError, RemoteRefused
from hosting.backup.writer import NotOurs, Writer
from tests.unit.hosting_backup.conftest import Fill, content, prompts
from tests.unit.hosting_backup.hub_server import TOKEN, Fault, Hub, Repo

REPO = "mars/backup"
pytestmark = pytest.mark.filterwarnings(
    "ignore:Use 'content=:DeprecationWarning"
)  # huggingface_hub's own, of its HTTP client


def go_on() -> None:
    pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # its server is not played here
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda _s: None))
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def page(hub: Hub, log: logging.Logger) -> Callable[..., Writer]:
    def page(database: Path, token: str = TOKEN) -> Writer:
        return Writer(database, DatasetRemote(HfApi(endpoint=hub.url, token=token), REPO), log)

    return page


def test_what_was_pushed_comes_back(tmp_path: Path, fill: Fill, hub: Hub, page: Callable[..., Writer]) -> None:
    mine = fill(tmp_path / "one" / "runs.db", "first", "second")
    writer = page(mine)
    writer.begin(go_on)
    assert hub.repos[REPO].private
    assert writer.push(go_on) is not None
    fill(mine, "third")
    assert writer.push(go_on) is not None
    theirs = tmp_path / "two" / "runs.db"
    assert "Restored 3 comparisons" in page(theirs).begin(go_on)
    assert content(theirs) == content(mine)


def test_dropped_snapshots_leave_the_repository_its_history_and_its_storage(
    tmp_path: Path, fill: Fill, hub: Hub, page: Callable[..., Writer]
) -> None:
    database = fill(tmp_path / "runs.db")
    writer = page(database)
    for number in range(KEPT + 2):
        fill(database, f"prompt {number}")
        writer.push(go_on)
    repo = hub.repos[REPO]
    assert len(repo.stored) == KEPT + 2
    writer.tidy()
    assert len(repo.commits) == 1 and len(repo.stored) == KEPT
    assert sum(name.startswith("snapshots/") for name in repo.files) == KEPT
    fill(database, "after the squash")
    assert writer.push(go_on) is not None


@pytest.mark.parametrize(
    ("word", "status", "kind"),
    [
        ("/commit/", 500, RemoteError),
        ("/commit/", 401, RemoteRefused),
        ("/commit/", 403, RemoteRefused),
        ("/lfs/", 500, RemoteError),
        ("/lfs/", 403, RemoteRefused),
        ("/preupload/", 503, RemoteError),
        ("/preupload/", 401, RemoteRefused),
    ],
)
def test_a_push_that_fails_changes_nothing_and_the_next_one_works(
    tmp_path: Path,
    fill: Fill,
    hub: Hub,
    page: Callable[..., Writer],
    word: str,
    status: int,
    kind: type[RemoteError],
) -> None:
    writer = page(fill(tmp_path / "runs.db", "first"))
    writer.begin(go_on)
    hub.fail(word, *[Fault(status=status)] * 6)  # huggingface_hub asks again up to five times
    with pytest.raises(kind) as failed:
        writer.push(go_on)
    assert str(status) in str(failed.value) and TOKEN not in str(failed.value) and "http:" not in str(failed.value)
    assert NAME not in hub.repos[REPO].files
    hub.faults.clear()
    assert writer.push(go_on) is not None


def test_a_commit_upon_another_one_is_refused(tmp_path: Path, hub: Hub) -> None:
    remote = DatasetRemote(HfApi(endpoint=hub.url, token=TOKEN), REPO)
    version = remote.read().version
    hub.repos[REPO].commit({"manifest.json": b"another"})
    file = tmp_path / "file.gz"
    file.write_bytes(b"content")
    with pytest.raises(RemoteChanged):
        remote.write(b"{}", ("snapshots/00000001-0123456789ab.db.gz", file), (), version, go_on)
    assert hub.repos[REPO].files == {"manifest.json": b"another"}


def test_a_push_goes_on_upon_a_commit_that_touches_no_backup(
    tmp_path: Path, fill: Fill, hub: Hub, page: Callable[..., Writer]
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    writer.push(go_on)
    repo = hub.repos[REPO]
    repo.commit({**repo.files, "README.md": b"Backups."})
    fill(database, "second")
    assert writer.push(go_on) is not None
    assert "README.md" in repo.files


def test_of_two_pages_the_second_takes_over(tmp_path: Path, fill: Fill, page: Callable[..., Writer]) -> None:
    old_file = fill(tmp_path / "old" / "runs.db", "first")
    old = page(old_file)
    old.push(go_on)
    new = page(tmp_path / "new" / "runs.db")
    new.begin(go_on)
    fill(old_file, "second")
    with pytest.raises(NotOurs):
        old.push(go_on)


def test_a_push_whose_answer_was_lost_is_found_to_be_there(
    tmp_path: Path, fill: Fill, hub: Hub, page: Callable[..., Writer]
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    writer = page(database)
    writer.begin(go_on)
    hub.fail("/commit/", Fault(late=True))
    with pytest.raises(RemoteError, match="could not be reached"):
        writer.push(go_on)
    assert writer.push(go_on) is None
    assert len(hub.repos[REPO].commits) == 2


@pytest.mark.parametrize("fault", [Fault(cut=True), Fault(status=500), Fault(status=404)])
def test_a_download_that_fails_leaves_no_database(
    tmp_path: Path, fill: Fill, hub: Hub, page: Callable[..., Writer], fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    page(fill(tmp_path / "runs.db", "first")).push(go_on)
    hub.fail("/snapshots/", *[fault] * 60)
    monkeypatch.setattr("time.sleep", lambda _: None)  # between two tries
    target = tmp_path / "new" / "runs.db"
    with pytest.raises((RemoteError, NotOurs)):
        page(target).begin(go_on)
    assert list(target.parent.iterdir()) == []


def test_a_download_that_is_cut_once_comes_whole(
    tmp_path: Path, fill: Fill, hub: Hub, page: Callable[..., Writer]
) -> None:
    page(fill(tmp_path / "runs.db", "first")).push(go_on)
    hub.fail("/snapshots/", Fault(), Fault(cut=True))  # the first request asks for the size
    target = tmp_path / "new" / "runs.db"
    page(target).begin(go_on)
    assert prompts(target) == ["first"]


@pytest.mark.parametrize(
    ("repo", "sentence"),
    [(Repo(private=False), "is public"), (Repo(), "holds other files")],
    ids=["public", "other files"],
)
def test_a_repository_that_is_not_for_backups_is_refused(
    tmp_path: Path, fill: Fill, hub: Hub, page: Callable[..., Writer], repo: Repo, sentence: str
) -> None:
    if repo.private:
        repo.commit({"train.parquet": b"data"})
    hub.repos[REPO] = repo
    with pytest.raises(RemoteRefused, match=sentence):
        page(fill(tmp_path / "runs.db", "first")).push(go_on)
    assert NAME not in repo.files


def test_a_wrong_token_is_said_without_being_told(tmp_path: Path, page: Callable[..., Writer]) -> None:
    with pytest.raises(RemoteRefused) as failed:
        page(tmp_path / "runs.db", "hf_wrong").begin(go_on)
    assert "hf_wrong" not in str(failed.value) and "401" in str(failed.value)


def test_no_network_is_one_sentence(tmp_path: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda _s: None))
    for offline, endpoint in ((True, "https://huggingface.co"), (False, "http://127.0.0.1:9")):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        _http.close_session()
        writer = Writer(tmp_path / "runs.db", DatasetRemote(HfApi(endpoint=endpoint, token=TOKEN), REPO), log)
        with pytest.raises(RemoteError, match="could not be reached"):
            writer.begin(go_on)
    _http.close_session()


def test_settings_that_cannot_be_used_are_refused(tmp_path: Path, log: logging.Logger) -> None:
    file = tmp_path / "runs.db"
    assert backup_of("", "", file, 10, log) is None
    assert backup_of(REPO, TOKEN, file, 10, log) is not None
    assert backup_of("hf://buckets/mars/backup", TOKEN, file, 10, log) is not None
    for repo, token, database, sentence in (
        ("backup", TOKEN, file, "owner/name"),
        ("https://huggingface.co/mars/backup", TOKEN, file, "owner/name"),
        ("../x/y", TOKEN, file, "owner/name"),
        (REPO, "", file, "no token"),
        (REPO, TOKEN, None, "PostgreSQL"),
    ):
        with pytest.raises(ValueError, match=sentence):
            backup_of(repo, token, database, 10, log)
