"""A page with its threads: it pushes by itself and at its end, survives being killed, and never
keeps a process from ending."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import PIPE

import pytest

from hosting.backup import backup_of
from hosting.backup.service import Backup
from storage import RunStore
from tests.serving import until
from tests.unit.children import Child
from tests.unit.hosting_backup.conftest import REPO, Page, backup_at, rows
from tests.unit.hosting_backup.hub import TOKEN, Fault, Hub
from tests.unit.hosting_backup.test_backup import EMPTY, files_of, repo_of, save

Open = Callable[..., Page]
LOG = logging.getLogger("tests.backup")
ROOT = Path(__file__).parents[3]


def run_page(
    path: Path, hub: Hub, wait: Callable[[], object], seconds: float = 60.0
) -> tuple[str, str]:
    """A page at the database with the Hub saves a run and ends when it may. What is said of its
    restore and of its last push, each of which may take ``seconds``."""
    backup = backup_at(path, hub)
    restored = backup.restore(seconds)
    with RunStore(f"sqlite:///{path}") as store:
        save(store, "by the child")
        backup.start(store)
        wait()
        return restored, backup.stop(seconds)


def page_to_be_killed(pipe: Connection, path: Path, hub: Hub) -> None:
    run_page(path, hub, pipe.recv)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A database that is not there yet."""
    (tmp_path / "one").mkdir()
    return tmp_path / "one" / "runs.db"


@pytest.fixture
def backup(one: Path, hub: Hub) -> Backup:
    return backup_at(one, hub)


@contextmanager
def begun(backup: Backup) -> Iterator[RunStore]:
    """Its database with one comparison; the backup has been started."""
    with RunStore(f"sqlite:///{backup._database}") as store:
        save(store, "before the start")
        backup.start(store)
        yield store


def test_a_page_pushes_at_its_start_and_at_its_end(hub: Hub, page: Open, backup: Backup) -> None:
    assert backup.restore() == f"There is no backup at the dataset repository {REPO} yet."
    with begun(backup) as store:
        until(lambda: backup.pushed_at)
        assert repo_of(hub).private
        save(store, "later")
        assert backup.stop(60.0) == f"The backup at the dataset repository {REPO} is up to date."
        assert page("two").rows == rows(store)


def test_a_page_whose_database_is_another_one_pushes_nothing(hub: Hub, backup: Backup) -> None:
    backup.restore()
    before = hub.now().calls
    backup.hold("the database is temporary.")
    with begun(backup):
        assert (
            backup.stop(1.0)
            == f"Nothing is pushed to the dataset repository {REPO}: the database is temporary."
        )
    assert hub.now().calls == before


@pytest.mark.parametrize("late", [False, True], ids=["before the commit", "after the commit"])
def test_a_page_killed_while_it_pushes_loses_nothing(
    one: Path, hub: Hub, page: Open, late: bool
) -> None:
    hub.fail("create_commit", Fault(hangs=not late, late=late))
    child = Child(page_to_be_killed, one, hub)
    until(lambda: "create_commit" in hub.now().calls)
    if late:
        until(lambda: "runs.db" in files_of(hub))
    child.kill()
    first = page("one")
    assert first.push() == ""
    assert first.store.count() == 1
    assert not list(one.parent.glob(".runs.db.backup/*"))
    second = page("two")
    assert second.rows == first.rows
    assert second.push() == ""
    assert files_of(hub) == [*EMPTY, "runs.db"]


@pytest.mark.usefixtures("first")
def test_a_hub_that_hangs_keeps_no_process(one: Path, hub: Hub) -> None:
    """In a restore and in a push; with all that an interpreter does at its end, so it is not
    forked."""
    calls = ("hf_hub_download", "create_commit")
    with hub.known() as known:
        known.calls.clear()
        known.faults |= {call: [Fault(hangs=True)] * 20 for call in calls}
    code = "from tests.unit.hosting_backup.test_pages import *; "
    code += f"print(*run_page(Path({str(one)!r}), Hub(Path({str(hub.folder)!r})), input, 0.5))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, text=True, stdin=PIPE, stdout=PIPE
    )
    try:
        until(lambda: {*calls} <= {*hub.now().calls})
        said = process.communicate("\n", timeout=120)[0]
        assert "took too long" in said and "did not end within 0.5 s" in said
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_settings_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    assert backup_of("", "", file, 10, LOG) is None
    assert backup_of(REPO, TOKEN, file, 10, LOG) is not None
    for repo, token, database, sentence in (
        ("backup", TOKEN, file, "owner/name"),
        ("https://huggingface.co/mars/backup", TOKEN, file, "owner/name"),
        ("hf://buckets/mars/backup", TOKEN, file, "owner/name of a dataset repository"),
        ("../x/y", TOKEN, file, "owner/name"),
        (REPO, "", file, "no token"),
        (REPO, TOKEN, None, "PostgreSQL"),
    ):
        with pytest.raises(ValueError, match=sentence):
            backup_of(repo, token, database, 10, LOG)
