"""Exclusive write access to a SQLite file among threads and processes: a lock on the file ``NAME-lock`` beside it. Linux, local disks.

SQLite before 3.51.3 can damage a database in WAL mode when one connection commits while another makes a checkpoint. Committing
connections hold this lock, and checkpoints run within the COMMIT or under the lock, so that the two never coincide.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PAUSE_S = 0.001  # between two attempts
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")  # e.g. a space in a mount point
_LOCAL = frozenset(
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "fuse.fuse-overlayfs", "overlay", "tmpfs", "xfs", "zfs"]
)


def lock_file(database: Path) -> Path | None:
    """The lock file of ``database``; None if locks are not supported or the file system is not a known local one."""
    known = fcntl is not None and _MOUNTS.exists()
    return (
        Path(f"{database}-lock")
        if known and _kind(database.parent, _MOUNTS.read_text(errors="surrogateescape")) in _LOCAL
        else None
    )


def acquire(path: Path, seconds: float) -> int:
    """Waits for the lock and returns the open file; ``os.close`` releases it. Raises sqlite3.OperationalError after ``seconds``, OSError.

    Two locks avoid starvation: the owner of the first is next in line, and releases it after acquiring the second. So a process that
    writes again immediately comes after the one that waits.
    """
    until = time.monotonic() + seconds
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            for lock in (fcntl.lockf, fcntl.flock):
                while not _locked(lock, file):
                    if time.monotonic() > until:
                        raise sqlite3.OperationalError("database is locked")
                    time.sleep(PAUSE_S)
            fcntl.lockf(file, fcntl.LOCK_UN)
            if _is_at(path, file):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def remove(path: Path) -> None:
    """Remove the file, unless it is locked. Waiting processes detect the removal and use a new file."""
    with suppress(OSError, sqlite3.OperationalError):
        file = acquire(path, 0.0)
        path.unlink()
        os.close(file)


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _locked(lock: Callable[[int, int], object], file: int) -> bool:
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    return True


def _kind(folder: Path, mounts: str) -> str:
    """The type of the file system of ``folder``: of the deepest mount point, the last one if there are several."""
    real, depth, kind = folder.resolve(), -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(_OCTAL.sub(lambda escaped: chr(int(escaped[1], 8)), before.split()[4]))
        if len(point.parts) >= depth and real.is_relative_to(point):
            depth, kind = len(point.parts), after.split()[0]
    return kind
