"""Backup: restores the database at the start, and pushes a snapshot of it at intervals and at the
end, if it has changed."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from hosting.backup.repository import DAMAGED, DATABASE, OTHER, BackupError, Repository
from storage import RunStore, StorageError, url_of
from storage.journal import SIDES, synced
from storage.snapshot import write_snapshot

RESTORE_S, PUSH_S = 900.0, 900.0
RETRY_S = 60.0  # after a push that failed
PAUSES_S = (0.0, 1.0, 4.0)  # before each try at the start


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
        self._store: RunStore | None = None
        # The SHA-256 of what this database was restored from or pushed as, also before a restart.
        self._own_file = database.with_name(f".{database.name}.pushed")
        self._name, self._pushed, self._tidy = DATABASE, "", True
        self.pushed_at: datetime | None = None
        self.problem = ""

    def restore(self, seconds: float = RESTORE_S) -> str:
        """Create the database from the backup if it does not exist. Returns a sentence with the
        result.

        A thread builds it in a separate folder, and may go on there after ``seconds``; only this
        one touches the database's files.
        """
        shutil.rmtree(self._folder, ignore_errors=True)  # left by a process before
        label, built = self._repository.label, Future[tuple[Path, str, int] | None]()
        if self._database.exists():
            return f"The existing database is used; it is backed up to {label}."
        message = f"There is no backup at {label} yet."
        self._own_file.unlink(missing_ok=True)
        self._name = OTHER.format(datetime.now(UTC))  # until it is known what is there
        _in_thread(partial(self._build, built))
        with self._reported("The backup was not restored"):
            if not wait([built], seconds).done:
                raise BackupError(f"{label} took too long.")
            if (restored := built.result()) is not None:
                path, sha, count = restored
                self._install(path)
                self._own_file.write_text(sha, encoding="ascii")
                message = f"Restored from {label}; comparisons: {count:,}."
            self._name = DATABASE
        if built.done():
            shutil.rmtree(self._folder, ignore_errors=True)
        return self.problem or message

    def start(self, store: RunStore) -> None:
        """Push ``store`` at intervals from now on."""
        if not self._ending.is_set():
            self._store = store
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
        """Push what has changed, one call after the other; one that does not return is given up."""
        lock = self._lock
        with self._reported("The backup was not pushed"):
            if not lock.acquire(timeout=PUSH_S):
                self._lock = threading.Lock()
                raise BackupError(f"{self._repository.label} took too long.")
            try:
                self._push()
            finally:
                lock.release()
        if not (self.problem or self._tidy or self._ending.is_set()):
            with self._reported("Earlier backups were not removed"):
                self._repository.forget()
                self._tidy = True

    def _run(self) -> None:
        while not self._ending.is_set():
            _in_thread(self.push).join(self._every_s)
            self._ending.wait(RETRY_S if self.problem else self._every_s)

    def _push(self) -> None:
        store, hub = self._store, self._repository
        assert store is not None
        self._folder.mkdir(parents=True, exist_ok=True)  # on the file system of the database
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            copy = Path(folder, DATABASE)
            damage = write_snapshot(store, copy)
            with copy.open("rb") as file:
                sha = hashlib.file_digest(file, "sha256").hexdigest()
            if sha != self._pushed:
                self._tidy = False
                own = {*self._own(), sha}  # noted first: the answer of the Hub may be lost
                self._own_file.write_text("\n".join(own), encoding="ascii")
                hub.push(copy, DAMAGED if damage else self._name, own)
                self._own_file.write_text(sha, encoding="ascii")
                self._pushed, self.pushed_at = sha, datetime.now(UTC)
                self._log.info("Backup pushed to %s.", hub.label)
        if damage:
            raise BackupError(
                f"the database is pushed as {DAMAGED}, beside an older {DATABASE}: {damage}"
            )

    def _own(self) -> list[str]:
        return self._own_file.read_text(encoding="ascii").split() if self._own_file.exists() else []

    def _build(self, built: Future[tuple[Path, str, int] | None]) -> None:
        """Build the restored database, with its SHA-256 and its number of comparisons; None if
        there is no backup."""
        for last, pause_s in enumerate(PAUSES_S, 1 - len(PAUSES_S)):
            time.sleep(pause_s)
            try:
                head = self._repository.look()
                if DATABASE not in head.files:
                    return built.set_result(None)
                self._folder.mkdir(parents=True, exist_ok=True)
                restored = self._repository.fetch(head, self._folder)
                with RunStore(url_of(restored)) as store:
                    count = store.count()
                return built.set_result((restored, head.files[DATABASE], count))
            except Exception as error:  # noqa: BLE001  (raised in the caller's thread)
                if not last:
                    built.set_exception(error)

    def _install(self, restored: Path) -> None:
        """Install by a link, which unlike a rename does not overwrite; journals are never touched.
        Raises BackupError, OSError."""
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


def _in_thread(call: Callable[[], object]) -> threading.Thread:
    """Start a daemon thread, because the HTTP client has no time limit."""
    thread = threading.Thread(target=call, name="backup", daemon=True)
    thread.start()
    return thread
