"""Backs up the database to a private dataset repository on the Hub, for hosts without persistent
disks (``docs/hosting.md``)."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi

from hosting.backup.repository import Repository
from hosting.backup.service import Backup
from hosting.settings import REPOSITORY

__all__ = ["Backup", "backup_of"]


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
    return Backup(database, Repository(HfApi(token=token), repo), minutes, log)
