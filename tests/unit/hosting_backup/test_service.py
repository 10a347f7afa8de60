"""The thread: it pushes what changed, says what is wrong, and is never in the way of a page that ends."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hosting.backup import Backup, service
from hosting.backup import manifest as form
from tests.unit.hosting_backup.conftest import Fill, content, prompts
from tests.unit.hosting_backup.folder_remote import FolderRemote, unreachable

TICK = 0.05 / 60  # minutes


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "RETRY_S", 0.05)


@pytest.fixture
def backup(remote: FolderRemote, log: logging.Logger) -> Callable[..., Backup]:
    def backup(database: Path, minutes: float = TICK) -> Backup:
        return Backup(database, remote, minutes, log, first_s=0.01 if minutes == TICK else 60)

    return backup


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.01)


def counts(remote: FolderRemote) -> list[int]:
    text = remote.manifest
    return [] if text is None else [entry.comparisons for entry in form.from_bytes(text).entries]


def test_what_changed_is_pushed_and_nothing_else(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    running = backup(database)
    running.restore()
    running.start()
    until(lambda: counts(remote) == [1])
    until(lambda: running.state.pushed_at)
    time.sleep(0.3)
    assert remote.calls.count("write") == 1
    fill(database, "second")
    until(lambda: counts(remote) == [2, 1])
    assert running.stop() == "The backup at the test's folder is up to date."
    assert remote.calls.count("write") == 2
    assert running.state.generation == 2 and not running.state.problem


def test_the_last_runs_are_pushed_at_the_end(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    running = backup(database, minutes=60)
    running.restore()
    running.start()
    fill(database, "second")
    assert "up to date" in running.stop()
    assert counts(remote) == [2]
    target = tmp_path / "new" / "runs.db"
    assert "Restored 2 comparisons" in backup(target).restore()
    assert content(target) == content(database)


def test_a_failing_place_is_told_and_tried_again(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    running = backup(fill(tmp_path / "runs.db", "first"))
    running.restore()
    gate = threading.Event()

    def told() -> None:
        gate.set()
        unreachable()

    remote.fail("write", told, unreachable, unreachable)
    running.start()
    until(gate.is_set)
    until(lambda: "could not be reached" in running.state.problem or counts(remote))
    until(lambda: counts(remote) == [1])
    until(lambda: not running.state.problem)
    running.stop()


def test_a_place_that_cannot_be_reached_at_the_start_keeps_nobody_waiting(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    first = backup(fill(tmp_path / "runs.db", "first"), minutes=60)
    first.start()
    first.stop()
    remote.fail("read", *[unreachable] * 3)
    target = tmp_path / "new" / "runs.db"
    running = backup(target)
    assert "was not restored" in running.restore()
    fill(target, "made meanwhile")
    running.start()
    until(lambda: running.state.stopped)
    assert "not known" in running.stop() and counts(remote) == [1]


def test_a_place_that_hangs_is_given_up(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PUSH_S", 1.0)
    release = threading.Event()

    def hang() -> None:
        release.wait(20)

    remote.fail("read", hang)
    assert "took too long" in backup(tmp_path / "other" / "runs.db").restore(0.2)
    database = fill(tmp_path / "runs.db", "first")
    running = backup(database)
    running.restore()
    remote.fail("write", hang)
    running.start()
    until(lambda: "took too long" in running.state.problem)
    fill(database, "second")
    until(lambda: counts(remote)[:1] == [2])
    settled = remote.manifest
    release.set()  # what hung goes on, and is refused
    time.sleep(0.1)
    assert remote.manifest == settled
    fill(database, "third")
    until(lambda: counts(remote)[:1] == [3])
    running.stop()


def test_the_end_is_not_kept_waiting(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    running = backup(fill(tmp_path / "runs.db", "first"), minutes=60)
    running.restore()
    release = threading.Event()
    remote.fail("write", lambda: release.wait(20) and None)
    running.start()
    began = time.monotonic()
    said = running.stop(0.5)
    assert time.monotonic() - began < 1.5
    assert "too long" in said or "did not end" in said
    release.set()
    time.sleep(0.2)
    assert remote.manifest is None  # what was given up writes nothing later


def test_another_page_that_took_over_is_told(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    old = backup(database)
    old.restore()
    old.start()
    until(lambda: counts(remote) == [1])
    new = backup(tmp_path / "new" / "runs.db", minutes=60)
    new.restore()
    fill(database, "second")
    until(lambda: old.state.stopped)
    assert "taken over" in old.stop() and counts(remote) == [1]
    assert prompts(database) == ["first", "second"]


def test_a_database_that_is_not_the_one_backed_up_is_not_pushed(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    running = backup(fill(tmp_path / "runs.db", "first"))
    running.restore()
    running.hold("the database was damaged and set aside.")
    running.start()
    time.sleep(0.2)
    assert "set aside" in running.stop() and remote.manifest is None and running.state.stopped


def test_a_mistake_in_the_program_ends_nothing(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    def mistake() -> None:
        raise TypeError("with a prompt in it")

    running = backup(fill(tmp_path / "runs.db", "first"))
    remote.fail("write", mistake)
    running.start()
    until(lambda: counts(remote) == [1])
    running.stop()
    assert "prompt" not in running.state.problem


def test_a_full_disk_is_one_sentence(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup]
) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device", "/secret/path")

    running = backup(fill(tmp_path / "runs.db", "first"), minutes=60)
    remote.fail("write", full)
    running.start()
    assert running.stop() == "The backup was not pushed: No space left on device."


def test_no_log_line_holds_a_prompt(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    running = backup(fill(tmp_path / "runs.db", "a secret prompt"), minutes=60)
    running.start()
    running.stop()
    (remote.folder / form.from_bytes(remote.manifest or b"").entries[0].name).write_bytes(b"")
    backup(tmp_path / "new" / "runs.db").restore()
    assert "pushed to" in caplog.text and "cannot be used" in caplog.text and "secret prompt" not in caplog.text


KILLED = """
import sys, logging, threading, os
from pathlib import Path
sys.path.insert(0, {root!r})
from hosting.backup import Backup
from mars_core.types import PromptConfig
from storage import RunStore
from tests.unit.hosting_backup.folder_remote import FolderRemote

def die():
    sys.stdout.write("now"); sys.stdout.flush()
    os.kill(os.getpid(), 9)

remote = FolderRemote(Path({remote!r}))
remote.fail({method!r}, *{before!r}, die)
database = Path({database!r})
backup = Backup(database, remote, 60, logging.getLogger("x"))
backup.restore()
with RunStore(f"sqlite:///{{database}}") as store:
    store.new_comparison(PromptConfig("second"))
    backup.start()
    backup.stop(60)
"""


@pytest.mark.parametrize(("method", "before"), [("write", []), ("answer", [])])
def test_a_page_killed_between_snapshot_and_push_loses_nothing(
    tmp_path: Path, fill: Fill, remote: FolderRemote, backup: Callable[..., Backup], method: str, before: list[None]
) -> None:
    database = fill(tmp_path / "runs.db", "first")
    first = backup(database, minutes=60)
    first.restore()
    first.start()
    first.stop()
    text = KILLED.format(
        root=str(Path.cwd()), remote=str(remote.folder), method=method, before=before, database=str(database)
    )
    killed = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=100, env={**os.environ})
    assert killed.returncode == -signal.SIGKILL and killed.stdout == b"now", killed.stderr
    assert prompts(database) == ["first", "second"]
    assert counts(remote) == ([1] if method == "write" else [2, 1])
    again = backup(database)
    again.restore()
    assert not list(tmp_path.glob(".runs.db.backup-*"))
    again.start()
    until(lambda: counts(remote) == [2, 1])
    fill(database, "third")
    until(lambda: counts(remote) == [3, 2, 1])
    again.stop()
