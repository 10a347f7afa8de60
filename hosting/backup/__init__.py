"""Keeps the database of a page whose disk does not last: whole snapshots in a private dataset repository or bucket on the Hub.

Knows no page and no models. ``docs/backup.md`` says what is kept, what is refused, and what may still be lost.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from hosting.backup.mounts import refuse_mounted
from hosting.backup.service import Backup, State

__all__ = ["Backup", "State", "backup_of", "refuse_mounted"]

_BUCKET = "hf://buckets/"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def backup_of(
    repo: str, token: str, database: Path | None, minutes: int, log: logging.Logger, *, endpoint: str | None = None
) -> Backup | None:
    """By the settings; None where no place is named. ``database``: the SQLite file, None for a server. Raises ValueError.

    ``endpoint``: another Hub than the usual one.
    """
    if not repo:
        return None
    name = repo.removeprefix(_BUCKET).rstrip("/")
    if not _NAME.fullmatch(name):
        raise ValueError(f"MARS_BACKUP_REPO is {repo[:80]!r}; it must be owner/name or {_BUCKET}owner/name.")
    if not token:
        raise ValueError("MARS_BACKUP_REPO is set and no token is; set MARS_BACKUP_TOKEN to one that may write there.")
    if database is None:
        raise ValueError("MARS_BACKUP_REPO is for a SQLite file; a PostgreSQL server has backups of its own.")
    refuse_mounted(database)
    from huggingface_hub import HfApi  # not before it is wanted

    from hosting.backup.bucket import BucketRemote
    from hosting.backup.dataset import DatasetRemote

    api = HfApi(endpoint=endpoint, token=token)
    kind = BucketRemote if repo.startswith(_BUCKET) else DatasetRemote
    return Backup(database, kind(api, name), minutes, log)
