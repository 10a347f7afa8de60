"""What was backed up comes back, whatever happened meanwhile; what was deleted does not."""

from __future__ import annotations

import io
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml  # type: ignore[import-untyped]

from hosting.backup import repository, service
from storage import RunStore, Search
from storage.export.columns import NODES, RUNS, TOKENS, described
from storage.schema import ComparisonRow
from tests.data.release import OWNER, contents
from tests.traces import ENVIRONMENT, make_trace
from tests.unit.hosting_backup.conftest import REPO, Page
from tests.unit.hosting_backup.hub_server import TOKEN, Fault, Hub, Repo
from tests.unit.storage.exports import save as save_traces

Open = Callable[..., Page]


def save(store: RunStore, prompt: str, runs: int = 1) -> str:
    return save_traces(
        store, *(make_trace(new_tokens=5, seed=seed, prompt=prompt) for seed in range(runs))
    )


def commits(hub: Hub) -> int:
    return sum("/commit/" in request for request in hub.requests)


def table(hub: Hub, folder: str, repo: str = REPO) -> list[dict[str, Any]]:
    """The rows of all files in a folder of the repository."""
    files = {
        path: content
        for path, content in hub.repos[repo].files.items()
        if path.startswith(f"{folder}/")
    }
    return [
        row for path in sorted(files) for row in pq.read_table(io.BytesIO(files[path])).to_pylist()
    ]


def everything_stored(hub: Hub) -> bytes:
    """All that the Hub still has of the repository: its history and its storage of large files."""
    repo = hub.repos[REPO]
    held = [content for _, files in repo.commits for content in files.values()]
    texts = []
    for content in [*held, *(content for _, content in repo.stored.values())]:
        texts.append(
            repr(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
            if content[:4] == b"PAR1"
            else content
        )
    return b"\n".join(texts)


def test_everything_comes_back_as_it_was(
    every_kind: str, tmp_path: Path, hub: Hub, page: Open
) -> None:
    first = page(every_kind)
    assert "The existing database is used" in first.notice
    before = first.rows
    assert all(before.values()), "a table without rows is not tested"
    assert first.push() == "" and first.backup.pushed_at
    second = page("second")
    assert second.notice == f"Restored from the dataset repository {REPO}; comparisons: 20."
    assert second.rows == before
    assert contents(second.store) == contents(first.store)
    for text in ("STRASSE", "task", "name"):
        totals = [store.find(Search(text=text)).total for store in (first.store, second.store)]
        assert totals[0] == totals[1] > 0
    assert contents(second.store.of(OWNER)) == contents(first.store.of(OWNER))
    pushed = commits(hub)
    assert second.push() == "" and commits(hub) == pushed, "what was restored is there already"
    left = [
        path.name for path in (tmp_path / "second").iterdir() if not path.name.startswith("runs.db")
    ]
    assert left == [".runs.db.backup"] and not list((tmp_path / "second" / left[0]).iterdir())


def test_what_changes_later_is_a_newer_version(every_kind: str, hub: Hub, page: Open) -> None:
    first = page(every_kind)
    first.push()
    old = dict(hub.repos[REPO].files)
    here = [str(id_) for id_ in first.store.comparisons()["id"]]
    first.store.annotate(here[0], name="later", tags=["new"], comment="")
    first.store.delete(here[1])
    (study,) = [head.id for head in first.store.studies() if head.name == "A study"][:1]
    first.store.work_on(study, 600.0)
    first.store.give(OWNER, "visitor-2")
    assert first.push() == ""
    made = save(first.store, "new", runs=2)
    assert first.push() == ""
    assert {path: hub.repos[REPO].files[path] for path in old} == old, "a file was changed"
    second = page("second")
    assert second.rows == first.rows
    assert repr(second.store.load(made)) == repr(first.store.load(made))


def test_readers_find_each_run_once(hub: Hub, page: Open) -> None:
    first = page("first")
    made = save(first.store, "one")
    hidden = save(first.store, "hidden")
    first.store.delete(hidden)
    first.push()
    trace = make_trace(new_tokens=7, seed=9, prompt="one")
    first.store.save_run(made, trace, lane=1, order=1)
    first.push()
    first.push()
    runs = first.store.load(made).runs
    assert sorted(row["lane"] for row in table(hub, "runs")) == [0, 1]
    for name in ("tokens", "nodes"):
        expected = {
            run.id: sum(len(getattr(step, name)) for step in run.trace.steps) for run in runs
        }
        assert Counter(row["run_id"] for row in table(hub, name)) == expected
    assert {row["run_id"] for row in table(hub, "runs")} == {run.id for run in runs}


def test_deleted_things_leave_files_history_and_storage(
    every_kind: str, hub: Hub, page: Open
) -> None:
    first = page(every_kind)
    mine = first.store.of("somebody")
    save(mine, "very private words", runs=2)
    first.push()
    assert b"very private words" in everything_stored(hub)
    assert mine.delete_everything() == 1
    first.push()
    assert {row["table"] for row in table(hub, "data/deleted")} >= {"comparisons", "runs"}
    assert b"very private words" in everything_stored(hub)
    assert first.tidy() == ""
    assert b"very private words" not in everything_stored(hub)
    assert len(hub.repos[REPO].commits) == 1
    assert table(hub, "data/deleted") == []
    pushed = commits(hub)
    assert first.tidy() == "" and commits(hub) == pushed, "there is nothing to be rewritten today"
    assert {row["run_id"] for row in table(hub, "runs")} == {
        run.id for id_ in first.store.comparisons()["id"] for run in first.store.load(id_).runs
    }
    second = page("second")
    assert second.rows == first.rows


def test_history_that_could_not_be_removed_is_removed_the_next_time(hub: Hub, page: Open) -> None:
    first = page("first")
    save(first.store.of("somebody"), "secret words")
    first.push()
    first.store.of("somebody").delete_everything()
    first.push()
    for word in ("/super-squash/", "/lfs-files"):
        hub.fail(word, *[Fault(status=500)] * 6)
        assert (
            "not compacted: the dataset repository mars/backup answered with HTTP 500."
            in first.tidy()
        )
        assert b"secret words" in everything_stored(hub)
        hub.faults.clear()
    assert first.tidy() == ""
    assert b"secret words" not in everything_stored(hub)
    assert sorted(hub.repos[REPO].files) == [".gitattributes", "README.md"]
    assert "no backup" in page("second").notice


@pytest.mark.parametrize(
    ("days", "files", "due"),
    [(6, 1000, False), (8, 1000, True), (6, 1, True)],
    ids=["neither", "old", "many"],
)
def test_old_versions_go_after_a_week_or_when_there_are_many_files(
    hub: Hub,
    page: Open,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    files: int,
    due: bool,
) -> None:
    monkeypatch.setattr(service, "MAX_FILES", files)
    first = page("first")
    made = save(first.store, "a prompt")
    first.store.annotate(made, name="old name")
    first.push()
    first.store.annotate(made, name="new name")
    first.push()
    stamp = f"{datetime.now(UTC) - timedelta(days=days):%Y%m%dT%H%M%SZ}"
    repo = hub.repos[REPO]
    repo.commit(
        {
            path.replace(path[-24:-8], stamp) if "/0000" in path else path: content
            for path, content in repo.files.items()
        }
    )
    assert first.tidy() == ""
    assert (b"old name" not in everything_stored(hub)) is due
    assert [row["name"] for row in table(hub, "runs")] == (["new name"] if due else ["old name"])


def test_two_pages_that_push_lose_nothing(
    hub: Hub, page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = page("one")
    shared, gone = save(one.store, "of both"), save(one.store, "gone")
    one.push()
    other = page("other")
    save(one.store, "of one")
    save(other.store, "of the other")
    other.store.annotate(shared, comment="by the other")
    one.store._remove("not removed", ComparisonRow.id == gone)
    commit = repository.Repository.commit

    def late(self: Any, *args: Any, **more: Any) -> None:
        monkeypatch.setattr(repository.Repository, "commit", commit)
        assert other.push() == ""
        commit(self, *args, **more)

    monkeypatch.setattr(repository.Repository, "commit", late)
    assert one.push() == ""
    third = page("third")
    assert third.prompts == ["of both", "of one", "of the other"]
    assert third.store.load(shared).comment == "by the other"
    numbers = [
        path.split("/")[-1][:8]
        for path in hub.repos[REPO].files
        if path.startswith("data/comparisons/")
    ]
    assert sorted(numbers) == ["00000001", "00000002", "00000003"]
    assert one.tidy() == ""  # what one writes anew holds what it has never had
    fourth = page("fourth")
    assert fourth.rows == third.rows


def test_a_page_that_started_without_the_hub_adds_its_runs(hub: Hub, page: Open) -> None:
    first = page("first")
    save(first.store, "before")
    first.push()
    hub.fail("/api/datasets/", *[Fault(status=503)] * 30)
    second = page("second")
    assert "answered with HTTP 503." in second.notice
    save(second.store, "meanwhile")
    hub.faults.clear()
    assert second.push() == ""
    third = page("third")
    assert third.prompts == ["before", "meanwhile"]


def test_a_push_that_fails_is_made_up_for_and_no_token_is_written(
    hub: Hub, page: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    first = page("first")
    save(first.store, "a prompt")
    for word, status in product(("/commit/", "/lfs/", "/preupload/"), (401, 403, 500)):
        hub.fail(word, *[Fault(status=status)] * 30)  # huggingface_hub asks again up to five times
        problem = first.push()
        assert problem.startswith("The backup was not pushed: ") and f"HTTP {status}" in problem
        assert "http:" not in problem and not table(hub, "data/runs")
        hub.faults.clear()
    hub.token = "hf_a_new_one"  # the page's has expired
    sentence = "the token may not read and write the dataset repository mars/backup (HTTP 401)."
    assert first.push() == f"The backup was not pushed: {sentence}"
    assert page("second").notice == f"The backup was not restored: {sentence}"
    hub.token = TOKEN
    assert first.push() == ""
    assert len(table(hub, "data/runs")) == 1
    assert TOKEN not in caplog.text


def test_a_repository_that_is_not_for_backups_is_refused(hub: Hub, page: Open) -> None:
    others = Repo()
    others.commit({"train.parquet": b"data"})
    for name, repo, sentence in (
        ("a", Repo(private=False), "is public"),
        ("b", others, "holds other files"),
    ):
        hub.repos[REPO] = repo
        first = page(name)
        assert sentence in first.notice
        save(first.store, "a prompt")
        assert sentence in first.push()
        assert not table(hub, "data")


def test_another_repository_and_one_that_was_emptied_get_everything(
    every_kind: str, hub: Hub, page: Open
) -> None:
    first = page(every_kind)
    first.push()
    first.store.close()
    moved = page(every_kind, repo="mars/other")
    assert moved.push() == ""
    assert page("second", repo="mars/other").rows == moved.rows
    moved.store.close()
    del hub.repos["mars/other"]
    again = page(every_kind, repo="mars/other")
    assert again.push() == ""
    assert page("third", repo="mars/other").rows == again.rows


@pytest.mark.usefixtures("first")
def test_a_file_that_is_damaged_or_newer_leaves_no_database(hub: Hub, page: Open) -> None:
    repo = hub.repos[REPO]
    (path,) = [path for path in repo.files if path.startswith("data/runs/")]
    original = repo.files[path]
    newer = io.BytesIO()
    pq.write_table(pa.table({"id": ["x"]}).replace_schema_metadata({"mars_schema": "9999"}), newer)
    for content, sentence in (
        (original[:-50], "of runs is damaged"),
        (newer.getvalue(), "update the app"),
    ):
        repo.commit({**repo.files, path: content})
        assert sentence in page(f"{len(content)}").backup.problem
    repo.commit({**repo.files, path: original})
    assert "comparisons: 1." in page("last").notice


@pytest.mark.usefixtures("first")
def test_a_run_whose_comparison_was_not_pushed_is_left_out(hub: Hub, page: Open) -> None:
    repo = hub.repos[REPO]
    repo.commit(
        {
            path: content
            for path, content in repo.files.items()
            if not path.startswith("data/comparisons/")
        }
    )
    second = page("second")
    assert "comparisons: 0." in second.notice
    assert not any(second.rows.values())


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
    follow = service.follow

    def meanwhile(*args: Any, **more: Any) -> None:
        follow(*args, **more)
        if not before:
            shutil.copy(tmp_path / "first" / "runs.db", target.with_name(name))
            before.append(target.with_name(name).read_bytes())

    monkeypatch.setattr(service, "follow", meanwhile)
    backup = page("other").backup
    before.clear()
    backup._database, backup._folder = target, target.with_name(".backup")
    target.parent.mkdir()
    assert sentence in backup.restore()
    assert [target.with_name(name).read_bytes()] == before
    assert [path.name for path in target.parent.iterdir() if path.is_file()] == [name]


@pytest.mark.usefixtures("first")
def test_an_abandoned_restore_touches_nothing(
    hub: Hub, page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is saved meanwhile stays, though the thread goes on; it leaves nothing behind."""
    may, fetch = threading.Event(), repository.Repository.fetch

    def late(*args: Any) -> None:
        may.wait(60)
        fetch(*args)

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
    assert (
        files() == before
        and not list(second.backup._folder.iterdir())
        and second.backup.problem == problem
    )
    assert second.store.count() == 1 and hub.requests


@pytest.mark.usefixtures("first")
def test_a_backup_of_release_0_1_0_says_what_was_exact_as_later_ones(
    tmp_path: Path, hub: Hub, page: Open
) -> None:
    repo = hub.repos[REPO]
    (path,) = (path for path in repo.files if path.startswith("data/runs/"))
    runs = pq.read_table(io.BytesIO(repo.files[path]))
    for name, value in (("pass_rows", 6), ("pass_width", 192)):
        runs = runs.append_column(name, pa.array([value] * len(runs)))
    pq.write_table(runs.replace_schema_metadata({"mars_schema": "0007"}), tmp_path / "runs.parquet")
    repo.commit(repo.files | {path: (tmp_path / "runs.parquet").read_bytes()})
    store = page("second").store
    (run,) = store.load(str(store.comparisons()["id"][0])).runs
    assert run.trace.config.environment == ENVIRONMENT | {"exact": "6 rows, 192 positions"}


@pytest.mark.usefixtures("first")
def test_the_card_names_the_splits_and_describes_every_column(hub: Hub) -> None:
    files = hub.repos[REPO].files
    card = files["README.md"].decode()
    configs = yaml.safe_load(card.split("---\n")[1])["configs"]
    assert [config["config_name"] for config in configs] == [*repository.VIEWS]
    for config, columns in zip(configs, (RUNS, TOKENS, NODES), strict=True):
        (data,) = config["data_files"]
        (path,) = [path for path in files if fnmatch(path, data["path"]) and path.count("/") == 1]
        assert pq.read_schema(io.BytesIO(files[path])).names == [column.name for column in columns]
        section = card.partition(f"\n## {data['split']}\n")[2].partition("\n## ")[0]
        assert all(f"`{each.name}`" in section for each in columns)
    assert card.endswith(described(*repository.VIEWS, level="##"))
