"""Backup: restores the database at the start, and pushes changes at intervals and at the end.

A push is one commit with a new file for each changed table. At times all files are replaced by
files of the current rows.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from hosting.backup.repository import VIEWS, BackupError, Repository, Snapshot
from storage import RunStore, StorageError, write_parquet
from storage.changes import Changes, follow, forget_changes, read_changes, write_changes
from storage.journal import SIDES, synced

RESTORE_S, PUSH_S = 900.0, 900.0
RETRY_S = 60.0  # after a push that failed
PAUSES_S = (0.0, 1.0, 4.0)  # before each try at the start
CLEAN_S = 10.0  # for removing the folder of a restore
ROWS_A_PUSH, MAX_FILES = 1000, 1000
DAY, WEEK = timedelta(days=1), timedelta(days=7)


class Backup:
    """``restore`` before the database is opened, then ``start``, at the end ``stop``. None of them
    raises.

    ``pushed_at``: UTC, by this process; ``problem``: one sentence, or empty.
    """

    def __init__(
        self, database: Path, repository: Repository, minutes: float, log: logging.Logger
    ) -> None:
        self._database, self._repository, self._log = database, repository, log
        self._every_s = 60.0 * minutes
        self._folder = database.with_name(f".{database.name}.backup")
        self._ending, self._lock = threading.Event(), threading.Lock()
        self._tidy_at = datetime.now(UTC)
        self._store: RunStore | None = None
        self._compared = False
        self.pushed_at: datetime | None = None
        self.problem = ""

    def restore(self, seconds: float = RESTORE_S) -> str:
        """Create the database from the backup if it does not exist. Returns a sentence with the
        result.

        A thread builds it in a separate folder, and may go on there after ``seconds``; only this
        one touches the database's files.
        """
        shutil.rmtree(self._folder, ignore_errors=True)  # left by a killed process
        file = self._repository.label
        built, over = Future[tuple[Path, int] | None](), threading.Event()
        if self._database.exists():
            return f"The existing database is used; it is backed up to {file}."
        thread = _in_thread(partial(self._build, built, over))
        message = f"There is no backup at {file} yet."
        try:
            with self._reported("The backup was not restored"):
                if not wait([built], seconds).done:
                    raise BackupError(f"{file} took too long.")
                if (restored := built.result()) is not None:
                    self._install(restored[0])
                    message = f"Restored from {file}; comparisons: {restored[1]:,}."
        finally:
            over.set()
        thread.join(CLEAN_S if built.done() else 0.0)
        return self.problem or message

    def start(self, store: RunStore) -> None:
        """Push changes of ``store`` at intervals from now on."""
        if not self._ending.is_set():
            self._store = store
            with self._reported("The backup was not started"):
                follow(store, self._repository.name)
            _in_thread(self._run)

    def hold(self, why: str) -> None:
        """Disable pushes in this process: the open database is not the one that was backed up."""
        self._ending.set()
        self.problem = f"Nothing is pushed to {self._repository.label}: {why}"
        self._log.warning(self.problem)

    def stop(self, seconds: float) -> str:
        """Push once more, and stop. Returns a sentence with the result. Takes at most
        ``seconds``."""
        self._ending.set()
        label = self._repository.label
        if self._store is None:
            return self.problem or f"Nothing was pushed to {label}."
        last = _in_thread(self.push)
        last.join(seconds)
        if last.is_alive():
            return f"The last push to {label} did not end within {seconds:g} s."
        return self.problem or f"The backup at {label} is up to date."

    def push(self) -> None:
        """Push all changes, one call after the other; one that does not return is given up."""
        lock = self._lock
        with self._reported("The backup was not pushed"):
            if not lock.acquire(timeout=PUSH_S):
                self._lock = threading.Lock()
                raise BackupError(f"{self._repository.label} took too long.")
            try:
                self._push()
            finally:
                lock.release()
        if datetime.now(UTC) >= self._tidy_at and not self._ending.is_set() and not self.problem:
            self._tidy_at = datetime.now(UTC) + DAY
            with self._reported("The backup was not compacted"):
                return self._tidy()
            self._tidy_at = datetime.now(UTC)

    def _run(self) -> None:
        while not self._ending.is_set():
            _in_thread(self.push).join(self._every_s)
            self._ending.wait(RETRY_S if self.problem else self._every_s)

    def _push(self) -> None:
        store, hub = self._store, self._repository
        assert store is not None
        if not self._compared:
            follow(store, hub.name, everything=not hub.look().pushes)
            self._compared = True
        while True:
            with self._work() as folder:
                changes = write_changes(store, folder, ROWS_A_PUSH)
                if changes is None:
                    return
                hub.push(_files(store, changes, folder))
            forget_changes(store, changes)
            self.pushed_at = datetime.now(UTC)
            self._log.info("Backup pushed to %s: %d changed rows.", hub.label, changes.rows)

    def _tidy(self) -> None:
        """Replace all files if due, and permanently remove deleted rows."""
        snapshot = self._repository.look()
        numbers = {number for number, *_ in snapshot.pushes}
        due = (
            any("/deleted/" in path for *_, path in snapshot.pushes)
            or (len(numbers) > 1 and datetime.now(UTC) - snapshot.pushes[0][1] > WEEK)
            or len(snapshot.pushes) > MAX_FILES
        )
        if due:
            with self._work() as folder, self._assembled(snapshot, folder) as store:
                follow(store, "", everything=True)
                changes = write_changes(store, folder)
                self._repository.commit(
                    snapshot, _files(store, changes, folder) if changes else {}, alone=True
                )
        self._repository.forget(squash=due)

    def _build(self, built: Future[tuple[Path, int] | None], over: threading.Event) -> None:
        """The restored database and its number of comparisons, None if there is no backup; it is
        removed when it is ``over``."""
        for last, pause_s in enumerate(PAUSES_S, 1 - len(PAUSES_S)):
            if over.wait(pause_s):
                return
            try:
                with self._work() as folder:
                    snapshot = self._repository.look()
                    if snapshot.pushes:
                        with self._assembled(snapshot, folder) as store:
                            follow(store, self._repository.name, copied=True)
                            count = store.count()
                        built.set_result((folder / "runs.db", count))
                        over.wait()
                    else:
                        built.set_result(None)
                    return
            except Exception as error:  # noqa: BLE001  (raised in the caller's thread)
                if not last:
                    built.set_exception(error)

    def _install(self, restored: Path) -> None:
        """By a link, which unlike a rename does not overwrite; journals are never touched. Raises
        BackupError, OSError."""
        for side in SIDES[:2]:
            left = Path(f"{self._database}{side}")
            if left.exists() and left.stat().st_size:  # SQLite would apply it to this database
                raise BackupError(
                    f"{left.name} of a lost database is there; move it away and start without a "
                    "database"
                )
        synced(restored)
        try:
            os.link(restored, self._database)
        except FileExistsError:
            raise BackupError(
                f"another program has created {self._database.name} meanwhile"
            ) from None
        synced(self._database.parent)

    def _assembled(self, snapshot: Snapshot, folder: Path) -> RunStore:
        """Builds the database runs.db in ``folder`` from the repository. Raises BackupError,
        StorageError."""
        paths = [path for *_, path in snapshot.pushes]
        self._repository.fetch(snapshot, paths, folder)
        store = RunStore(f"sqlite:///{folder / 'runs.db'}")
        read_changes(store, ((Path(path).parent.name, folder / path) for path in paths))
        return store

    @contextmanager
    def _work(self) -> Iterator[Path]:
        """A folder beside the database, on the same file system."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    @contextmanager
    def _reported(self, failure: str) -> Iterator[None]:
        """Logs errors, stores them in ``problem`` and does not raise."""
        try:
            yield
            self.problem = ""
        except Exception as error:  # noqa: BLE001  (a programming error must not stop the page or later pushes)
            reason = (
                str(error) if isinstance(error, StorageError) else self._repository.reason(error)
            )
            self.problem = f"{failure}: {reason.rstrip('.')}."
            self._log.warning(self.problem)


def _files(store: RunStore, changes: Changes, folder: Path) -> dict[str, Path]:
    """Files by their folder in the repository: of rows, and of the changed runs for dataset
    viewers."""
    files = {f"data/{name}": path for name, path in changes.files.items()}
    for name in VIEWS if changes.runs else ():
        comparisons = sorted(set(changes.runs.values()))  # which may have earlier runs
        write_parquet(name, store, folder / "all.parquet", comparisons)
        files[name] = folder / f"{name}.view.parquet"
        rows = pq.read_table(folder / "all.parquet", filters=[("run_id", "in", list(changes.runs))])
        pq.write_table(rows, files[name], compression="zstd")
    return files


def _in_thread(call: Callable[[], object]) -> threading.Thread:
    """Start a daemon thread, because the HTTP client has no time limit."""
    thread = threading.Thread(target=call, name="backup", daemon=True)
    thread.start()
    return thread
