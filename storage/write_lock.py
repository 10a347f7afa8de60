"""Exclusive write access to a SQLite file among threads and processes: a lock on the file ``NAME-lock`` beside it. Linux, local disks.

SQLite before 3.51.3 can damage a database in WAL mode when one connection commits while another makes a checkpoint. Committing
connections hold this lock, and checkpoints run within the COMMIT or under the lock, so that the two never coincide.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PAUSE_S = 0.001  # between two attempts
_LOCAL = frozenset(
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "fuse.fuse-overlayfs", "overlay", "tmpfs", "xfs", "zfs"]
)


def lock_file(database: Path) -> Path | None:
    """The lock file of ``database``; None if locks are not supported or the file system is not a known local one."""
    mount = mount_of(database.parent)
    return Path(f"{database}-lock") if fcntl is not None and mount and mount.fstype in _LOCAL else None


def mount_of(path: Path, mounts: Iterable[Any] | None = None) -> Any:
    """The deepest mount that ``path`` is on, the last one if there are several; None if unknown. ``mounts``: default this system's."""
    real, known = path.resolve(), psutil.disk_partitions(all=True) if mounts is None else mounts
    found = [mount for mount in known if real.is_relative_to(mount.mountpoint)]
    return max(reversed(found), key=lambda mount: len(Path(mount.mountpoint).parts), default=None)


def acquire(path: Path, seconds: float) -> int:
    """Waits for the lock and returns the open file; ``os.close`` releases it. Raises sqlite3.OperationalError after ``seconds``, OSError.

    Two locks avoid starvation: the owner of the first is next in line, and releases it after acquiring the second. So a process that
    writes again immediately comes after the one that waits.
    """
    until = time.monotonic() + seconds
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        for lock in (fcntl.lockf, fcntl.flock):
            while not _locked(lock, file):
                if time.monotonic() > until:
                    raise sqlite3.OperationalError("database is locked")
                time.sleep(PAUSE_S)
        fcntl.lockf(file, fcntl.LOCK_UN)
    except BaseException:
        os.close(file)
        raise
    return file


def _locked(lock: Callable[[int, int], object], file: int) -> bool:
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    return True
