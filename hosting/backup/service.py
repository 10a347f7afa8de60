"""Backup: the thread that pushes at intervals and once more at the end, and what it has to say of itself. Knows no kind of place."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from hosting.backup.changes import Changes
from hosting.backup.manifest import Entry
from hosting.backup.patience import within
from hosting.backup.remote import GivenUp, GoOn, Remote, RemoteError
from hosting.backup.writer import NotOurs, Writer
from storage import StorageError

_Result = TypeVar("_Result")

FIRST_S = 60.0  # after the start
RETRY_S = 60.0  # after a failure; twice as long after each further one, but never longer than the interval
BEGIN_S = 300.0  # for restoring at the start
PUSH_S = 900.0  # for one push
TIDY_S = 120.0
STOP_S = 5.0  # for the last push


@dataclass(frozen=True, slots=True)
class State:
    """What can be told of the backup at any time. ``problem``: one sentence, empty when all is well."""

    place: str
    pushed_at: datetime | None = None  # UTC, by this process
    generation: int = 0
    problem: str = ""
    stopped: bool = False  # nothing will be pushed any more


class Backup:
    """``restore`` before the database is opened, then ``start``, at the end ``stop``. Nothing here raises: runs go on without."""

    def __init__(
        self, database: Path, remote: Remote, minutes: float, log: logging.Logger, *, first_s: float = FIRST_S
    ) -> None:
        self._again: Callable[[Writer | None], Writer] = lambda before: Writer(database, remote, log, before)
        self._writer = self._again(None)
        self._changes = Changes(database)
        self._interval_s = minutes * 60
        self._first_s = min(first_s, self._interval_s)
        self._log = log
        self._wake = threading.Event()
        self._deadline = float("inf")  # time.monotonic(), for all that is under way
        self._failures = 0
        self._thread: threading.Thread | None = None
        self._state = State(remote.place)

    @property
    def state(self) -> State:
        return self._state

    def restore(self, seconds: float = BEGIN_S) -> str:
        """Where there is no database, fetch the last one. A sentence that says what was done, or why not."""
        self._writer.clean()
        return self._tried("The backup was not restored", self._writer.begin, seconds) or self._state.problem

    def start(self) -> None:
        """Push at intervals from now on."""
        self._thread = threading.Thread(target=self._work, name="backup", daemon=True)
        self._thread.start()

    def hold(self, why: str) -> None:
        """Push nothing in this process: the database that is open is not the one that was backed up."""
        self._state = replace(self._state, problem=f"Nothing is pushed to {self._state.place}: {why}", stopped=True)
        self._log.warning(self._state.problem)

    def stop(self, seconds: float = STOP_S) -> str:
        """Push once more if something changed, and end; a sentence that says how it went. Takes ``seconds`` at the most."""
        if self._thread is None:
            return self._state.problem
        self._deadline = time.monotonic() + seconds
        self._wake.set()
        self._thread.join(seconds + 0.2)
        if self._thread.is_alive():
            self._failed(f"The last push to {self._state.place} did not end within {seconds:g} s")
        return self._state.problem or f"The backup at {self._state.place} is up to date."

    def _work(self) -> None:
        wait_s = self._first_s
        while not self._state.stopped:
            last = self._wake.wait(wait_s)
            if not self._state.stopped:
                self._push_changes()
            if last:
                break
            wait_s = min(self._interval_s, RETRY_S * 2 ** (self._failures - 1)) if self._failures else self._interval_s
        self._changes.close()

    def _push_changes(self) -> None:
        count = self._changes.look()
        if self._changes.since() or self._failures or self._writer.stale():
            done = self._tried("The backup was not pushed", lambda go_on: (self._writer.push(go_on),), PUSH_S)
            if done is None:
                return
            self._changes.note(count)
            if done[0] is not None:
                self._pushed(done[0])
        if not self._wake.is_set():
            self._tried("The backup was not tidied", self._tidy, TIDY_S)

    def _pushed(self, entry: Entry) -> None:
        self._state = replace(self._state, pushed_at=datetime.now(UTC))
        self._log.info(
            "Backup %d pushed to %s: %d comparisons, %d bytes packed.",
            entry.generation,
            self._state.place,
            entry.comparisons,
            entry.packed_bytes,
        )

    def _tidy(self, _go_on: GoOn) -> bool:
        self._writer.tidy()
        return True

    def _tried(self, failure: str, call: Callable[[GoOn], _Result], seconds: float) -> _Result | None:
        """What ``call`` returns, None after a failure, which is logged and told in the state."""
        end = time.monotonic() + seconds
        try:
            result = within(call, lambda: min(end, self._deadline), "backup-call")
        except NotOurs as error:
            self._state = replace(self._state, problem=str(error), stopped=True)
            self._log.error(str(error))
            return None
        except GivenUp:
            self._writer = self._again(self._writer)
            self._failed(f"{failure}: {self._state.place} took too long")
            return None
        except (RemoteError, StorageError, OSError) as error:
            self._failed(f"{failure}: {_reason(error)}")
            return None
        except Exception as error:  # noqa: BLE001  (a mistake in the program must not end the page, nor later pushes)
            self._failed(f"{failure}: {type(error).__name__}")
            return None
        self._failures = 0
        self._state = replace(self._state, problem="", generation=self._writer.generation or self._state.generation)
        return result

    def _failed(self, sentence: str) -> None:
        self._failures += 1
        self._state = replace(self._state, problem=f"{sentence.rstrip('.')}.")
        self._log.warning(self._state.problem)


def _reason(error: Exception) -> str:
    """Of a file's error only what went wrong: its text would name temporary paths."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
