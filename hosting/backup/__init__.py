"""Backs up the database to a private dataset repository on the Hub, for hosts without persistent
disks (``docs/hosting.md``)."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi

from hosting.backup.repository import Repository
from hosting.backup.service import Backup
from hosting.settings import REPOSITORY
from storage.journal import mount_of

__all__ = ["Backup", "backup_of"]

_LOCAL = "fuse.fuse-overlayfs"  # the disk of a container without root
_LOOPBACK = (
    "localhost",
    "127.0.0.1",
    "::1",
)  # a bucket mounted by NFS is served by a program on the same machine


def backup_of(
    repo: str, token: str, database: Path | None, minutes: int, log: logging.Logger
) -> Backup | None:
    """Return the configured backup; None without a repository. ``database``: the SQLite file, None
    for a server. Raises ValueError."""
    if not repo:
        return None
    if not REPOSITORY.fullmatch(repo):
        raise ValueError(
            f"MARS_BACKUP_REPO is {repo[:80]!r}; it must be owner/name of a dataset repository."
        )
    if not token:
        raise ValueError(
            "MARS_BACKUP_REPO is set but no token is; set MARS_BACKUP_TOKEN to one with write "
            "access."
        )
    if database is None:
        raise ValueError(
            "MARS_BACKUP_REPO is for a SQLite file; use the backups of the PostgreSQL server "
            "instead."
        )
    refuse_mounted(database)
    return Backup(database, Repository(HfApi(token=token), repo), minutes, log)


def refuse_mounted(database: Path) -> None:
    """Raise ValueError if ``database`` is on a mounted bucket, where writes are delayed."""
    mount = mount_of(database)
    kind, source = (mount.fstype, mount.device) if mount else ("", "")
    served = kind in ("nfs", "nfs4") and source.rpartition(":")[0].strip("[]") in _LOOPBACK
    if served or (kind.partition(".")[0] == "fuse" and kind != _LOCAL):
        raise ValueError(
            f"The database {database} is on {mount.mountpoint}, a mounted bucket or file system "
            f"of kind {kind}, on which SQLite loses data; set MARS_DATABASE_URL to a file on a "
            "local disk and MARS_BACKUP_REPO to a repository."
        )
