"""A private dataset repository on the Hub for backups only: the newest snapshot of a database.
Commits fail if the repository has changed since it was read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationCopy, HfApi
from huggingface_hub.errors import HfHubHTTPError

DATABASE = "runs.db"  # restored at a start
DAMAGED = "damaged.db"  # pushed instead of it where SQLite cannot read all of the database
OTHER = "other-{:%Y%m%dT%H%M%S%fZ}.db"  # of a page that did not know what was there
_CARD = "README.md"
_FILE = re.compile(r"(?:runs|damaged|other-\d{8}T\d{6,12}Z)\.db|README\.md|\.gitattributes")


class BackupError(Exception):
    """Why a repository cannot be used, in one sentence."""


class Commit(NamedTuple):
    """The newest commit. ``files``: path → SHA-256 of a large file."""

    commit: str
    files: Mapping[str, str]


class Repository:
    """``name``: owner/name. Methods raise BackupError, and many errors of the Hub's client, which
    ``reason`` explains."""

    def __init__(self, api: HfApi, name: str) -> None:
        self.api, self.name, self.label = api, name, f"the dataset repository {name}"
        self.where: dict[str, Any] = {"repo_id": name, "repo_type": "dataset"}

    def look(self) -> Commit:
        """Look up the newest commit of the repository, which is created if missing."""
        self.api.create_repo(**self.where, private=True, exist_ok=True)
        info = self.api.dataset_info(self.name, files_metadata=True, timeout=20.0)
        files = {
            each.rfilename: each.lfs.sha256 if each.lfs else "" for each in info.siblings or ()
        }
        if not info.private:
            raise BackupError(
                f"{self.label} is public, but backups contain prompts and texts; make it private."
            )
        if not all(map(_FILE.fullmatch, files)):
            raise BackupError(
                f"{self.label} holds other files than backups of this version; use a separate "
                "repository for backups."
            )
        return Commit(str(info.sha), files)

    def fetch(self, head: Commit, folder: Path) -> Path:
        """Fetch the database of that commit, below ``folder``."""
        path = self.api.hf_hub_download(
            **self.where, filename=DATABASE, revision=head.commit, local_dir=folder
        )
        return Path(path)

    def push(self, file: Path, name: str, own: Set[str], tries: int = 3) -> None:
        """Commit ``file`` as ``name``; retries after concurrent pushes. A file there that is not in
        ``own`` (SHA-256) is of another page, and is kept under another name."""
        head = self.look()
        changes: list[Any] = [CommitOperationAdd(name, str(file))]
        there = head.files.get(name)
        if there and there not in own:
            changes.append(CommitOperationCopy(name, OTHER.format(datetime.now(UTC))))
        if _CARD not in head.files:
            changes.append(
                CommitOperationAdd(_CARD, Path(__file__).with_name("card.md").read_bytes())
            )
        try:
            self.api.create_commit(
                **self.where, operations=changes, commit_message="Backup", parent_commit=head.commit
            )
        except HfHubHTTPError as error:
            if error.response.status_code not in (409, 412) or tries == 1:
                raise
            self.push(file, name, own, tries - 1)

    def forget(self) -> None:
        """Remove earlier files from history and storage, with what has been deleted since."""
        needed, stored = set(self.look().files.values()), self.api.list_lfs_files(**self.where)
        gone = [each for each in stored if needed.isdisjoint((each.oid, each.file_oid))]
        if gone:
            self.api.super_squash_history(**self.where, commit_message="Backup")
            self.api.permanently_delete_lfs_files(
                **self.where, lfs_files=gone, rewrite_history=False
            )

    def reason(self, error: BaseException) -> str:
        """Return the reason of an error, without addresses, tokens and paths."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, HfHubHTTPError):
            cause = cause.__cause__
        if cause is not None:
            status = cause.response.status_code
            refused = f"the token may not read and write {self.label} (HTTP {status})"
            return refused if status in (401, 403) else f"{self.label} answered with HTTP {status}"
        if isinstance(error, BackupError):
            return str(error)
        return (
            getattr(error, "strerror", None)
            or f"{self.label} could not be used ({type(error).__name__})"
        )
