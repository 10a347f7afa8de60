"""Backup: restores the database at the start, and pushes changes at intervals and at the end.

A push is one commit with a new file for each changed table. At times all files are replaced by files of the current rows.
"""

from __future__ import annotations

import gzip
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from hosting.backup.repository import VIEWS, BackupError, Repository, Snapshot
from storage import RunStore, StorageError, write_parquet
from storage.changes import Changes, follow, forget_changes, read_changes, write_changes

RESTORE_S, PUSH_S, RETRY_S = 900.0, 900.0, 60.0  # the last one: between tries while the Hub is unreachable
PAUSES_S = (0.0, 1.0, 4.0)  # before each try at the start
ROWS_A_PUSH, MAX_FILES = 1000, 1000
DAY, WEEK = timedelta(days=1), timedelta(days=7)


class Backup:
    """``restore`` before the database is opened, then ``start``, at the end ``stop``. None of them raises.

    ``pushed_at``: UTC, by this process; ``problem``: one sentence, or empty.
    """

    def __init__(self, database: Path, repository: Repository, minutes: float, log: logging.Logger) -> None:
        self._database, self._repository, self._minutes, self._log = database, repository, minutes, log
        self._folder = database.with_name(f".{database.name}.backup")
        self._ending, self._lock = threading.Event(), threading.Lock()
        self._reached, self._tidy_at = False, datetime.now(UTC)
        self.pushed_at: datetime | None = None
        self.problem = ""

    def restore(self, seconds: float = RESTORE_S) -> str:
        """Create the database from the backup if it does not exist. Returns a sentence with the result."""
        shutil.rmtree(self._folder, ignore_errors=True)  # left by a killed process
        self._message = f"The existing database is used; it is backed up to {self._repository.place}."
        if not self._database.exists():
            self.problem = f"The backup was not restored: {self._repository.place} took too long."
            _in_thread(self._restore).join(seconds)
        return self.problem or self._message

    def start(self, store: RunStore) -> None:
        """Push changes of ``store`` at intervals from now on."""
        self._store = store
        if not self._ending.is_set():
            with self._reported("The backup was not started"):
                follow(store, self._repository.name)
            _in_thread(self._run)

    def hold(self, why: str) -> None:
        """Disable pushes in this process: the open database is not the one that was backed up."""
        self._ending.set()
        self.problem = f"Nothing is pushed to {self._repository.place}: {why}"
        self._log.warning(self.problem)

    def stop(self, seconds: float) -> str:
        """Push once more, and stop. Returns a sentence with the result. Takes at most ``seconds``."""
        self._ending.set()
        if not self._reached:
            return self.problem or f"Nothing was pushed to {self._repository.place}."
        self.problem = f"The last push to {self._repository.place} did not end within {seconds:g} s."
        _in_thread(self.push).join(seconds)
        return self.problem or f"The backup at {self._repository.place} is up to date."

    def push(self) -> None:
        """Push the changes now, one call at a time."""
        lock = self._lock
        with self._reported("The backup was not pushed"):
            if not lock.acquire(timeout=PUSH_S):
                self._lock = threading.Lock()  # the old lock is held by a push that does not return
                raise BackupError(f"{self._repository.place} took too long.")
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
            _in_thread(self.push).join(PUSH_S)
            self._ending.wait(60 * self._minutes if self._reached else RETRY_S)

    def _push(self) -> None:
        if not self._reached:
            seen = self._repository.look()
            follow(self._store, self._repository.name, everything=not (seen.pushes or seen.earlier))
            self._reached = True
        while True:
            with self._work() as folder:
                changes = write_changes(self._store, folder, ROWS_A_PUSH)
                if changes is None:
                    return
                self._repository.push(_files(self._store, changes, folder))
            forget_changes(self._store, changes)
            self.pushed_at = datetime.now(UTC)
            self._log.info("Backup pushed to %s: %d changed rows.", self._repository.place, changes.rows)

    def _tidy(self) -> None:
        """Replace all files if due, and permanently remove deleted rows."""
        seen = self._repository.look()
        deleted = any("/deleted/" in path for *_, path in seen.pushes)
        aged = len({number for number, *_ in seen.pushes}) > 1 and datetime.now(UTC) - seen.pushes[0][1] > WEEK
        due = bool(deleted or aged or seen.earlier or len(seen.pushes) > MAX_FILES)
        if due:
            with self._work() as folder, self._assembled(seen, folder) as store:
                follow(store, "", everything=True)
                changes = write_changes(store, folder)
                self._repository.commit(seen, _files(store, changes, folder) if changes else {}, alone=True)
        self._repository.forget(squash=due)

    def _restore(self) -> None:
        for pause_s in PAUSES_S:
            time.sleep(pause_s)
            with self._reported("The backup was not restored"), self._work() as folder:
                seen = self._repository.look()
                self._message = f"There is no backup at {self._repository.place} yet."
                if seen.pushes or seen.earlier:
                    with self._assembled(seen, folder) as store:
                        follow(store, self._repository.name, fresh=True)
                        self._message = f"Restored from {self._repository.place}; comparisons: {store.count():,}."
                    for side in ("-journal", "-wal", "-shm"):  # SQLite would apply the journals of a removed database
                        if (left := Path(f"{self._database}{side}")).exists():
                            left.rename(f"{left}.left-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
                    os.sync()
                    os.link(folder / "runs.db", self._database)  # unlike a rename, does not overwrite
                return

    def _assembled(self, seen: Snapshot, folder: Path) -> RunStore:
        """Builds the database runs.db in ``folder`` from the repository. Raises BackupError, StorageError."""
        paths, snapshots = [path for *_, path in seen.pushes], seen.earlier[-1:]
        self._repository.fetch(seen, [*paths, *snapshots], folder)
        for name in snapshots:
            with gzip.open(folder / name) as packed, (folder / "runs.db").open("wb") as plain:
                shutil.copyfileobj(packed, plain)
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
            reason = str(error) if isinstance(error, StorageError) else self._repository.reason(error)
            self.problem = f"{failure}: {reason.rstrip('.')}."
            self._log.warning(self.problem)


def _files(store: RunStore, changes: Changes, folder: Path) -> dict[str, Path]:
    """Files by their folder in the repository: of rows, and of the changed runs for dataset viewers."""
    files = {f"data/{name}": path for name, path in changes.files.items()}
    for name in VIEWS if changes.runs else ():
        comparisons = sorted(set(changes.runs.values()))  # which may have earlier runs
        write_parquet(name, store, folder / "all.parquet", comparisons)
        files[name] = folder / f"{name}.view.parquet"
        own = pq.read_table(folder / "all.parquet", filters=[("run_id", "in", list(changes.runs))])
        pq.write_table(own, files[name], compression="zstd")
    return files


def _in_thread(call: Callable[[], object]) -> threading.Thread:
    """Start a daemon thread, because the HTTP client has no time limit."""
    thread = threading.Thread(target=call, name="backup", daemon=True)
    thread.start()
    return thread
