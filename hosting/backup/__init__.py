"""Keeps the database of a page whose disk does not last, in a private dataset repository on the Hub (``docs/backup.md``)."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from huggingface_hub import HfApi

from hosting.backup.mounts import refuse_mounted
from hosting.backup.repository import Repository
from hosting.backup.service import Backup

__all__ = ["Backup", "backup_of"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def backup_of(
    repo: str, token: str, database: Path | None, minutes: int, log: logging.Logger, *, endpoint: str | None = None
) -> Backup | None:
    """By the settings; None where no repository is named. ``database``: the SQLite file, None for a server. Raises ValueError."""
    if not repo:
        return None
    if not _NAME.fullmatch(repo):
        raise ValueError(f"MARS_BACKUP_REPO is {repo[:80]!r}; it must be owner/name of a dataset repository.")
    if not token:
        raise ValueError("MARS_BACKUP_REPO is set and no token is; set MARS_BACKUP_TOKEN to one that may write there.")
    if database is None:
        raise ValueError("MARS_BACKUP_REPO is for a SQLite file; a PostgreSQL server has backups of its own.")
    refuse_mounted(database)
    return Backup(database, Repository(HfApi(endpoint=endpoint, token=token), repo), minutes, log)
