"""A private dataset repository on the Hub for backups only. Commits fail if the repository has
changed since it was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError

from storage.export.columns import described

VIEWS = ("runs", "tokens", "nodes")  # for dataset viewers; a restore needs only data/
_CARD, _BESIDE = "README.md", (".gitattributes", "README.md")
_FILE = re.compile(rf"(?:data/\w+|{'|'.join(VIEWS)})/(\d{{8}})-(\d{{8}}T\d{{6}}Z)\.parquet")


class BackupError(Exception):
    """Why a repository cannot be used, in one sentence."""


class Snapshot(NamedTuple):
    """A commit: ``files``: path → SHA-256 of a large file; ``pushes``: number, time in UTC and path
    of the files of rows, in order."""

    commit: str
    files: Mapping[str, str]
    pushes: list[tuple[int, datetime, str]]


class Repository:
    """``name``: owner/name. Methods raise BackupError, and many errors of the Hub's client, which
    ``reason`` explains."""

    def __init__(self, api: HfApi, name: str) -> None:
        self.api, self.name, self.label = api, name, f"the dataset repository {name}"
        self.where: dict[str, Any] = {"repo_id": name, "repo_type": "dataset"}

    def look(self) -> Snapshot:
        """The newest commit of the repository, which is created if missing."""
        self.api.create_repo(**self.where, private=True, exist_ok=True)
        info = self.api.dataset_info(self.name, files_metadata=True, timeout=20.0)
        files = {
            each.rfilename: each.lfs.sha256 if each.lfs else "" for each in info.siblings or ()
        }
        if not info.private:
            raise BackupError(
                f"{self.label} is public, but backups contain prompts and texts; make it private."
            )
        if not all(_FILE.fullmatch(path) or path in _BESIDE for path in files):
            raise BackupError(
                f"{self.label} holds other files than backups; use a separate repository for "
                "backups."
            )
        matches = (
            (match, path)
            for path in files
            if path.startswith("data/") and (match := _FILE.fullmatch(path))
        )
        pushes = [
            (int(match[1]), datetime.strptime(match[2], "%Y%m%dT%H%M%S%z"), path)
            for match, path in matches
        ]
        pushes.sort(key=lambda each: (each[0], "/deleted/" in each[2]))
        return Snapshot(str(info.sha), files, pushes)

    def fetch(self, snapshot: Snapshot, paths: Iterable[str], folder: Path) -> None:
        """Files of that commit, below ``folder``."""
        get = partial(
            self.api.hf_hub_download, **self.where, revision=snapshot.commit, local_dir=folder
        )
        with ThreadPool(8) as pool:  # of daemons: a download that hangs keeps no process
            pool.map(lambda path: get(filename=path), paths)

    def push(self, files: Mapping[str, Path], tries: int = 3) -> None:
        """Commits on top of the newest commit; retries after concurrent pushes."""
        try:
            self.commit(self.look(), files)
        except HfHubHTTPError as error:
            if error.response.status_code not in (409, 412) or tries == 1:
                raise
            self.push(files, tries - 1)

    def commit(self, snapshot: Snapshot, files: Mapping[str, Path], *, alone: bool = False) -> None:
        """One commit upon ``snapshot`` with a file in each of these folders; ``alone``: all others
        are deleted."""
        number = snapshot.pushes[-1][0] + 1 if snapshot.pushes else 1
        name = f"{number:08d}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.parquet"
        changes: list[Any] = [
            CommitOperationAdd(f"{folder}/{name}", str(file)) for folder, file in files.items()
        ]
        if alone or _CARD not in snapshot.files:
            card = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
            changes.append(
                CommitOperationAdd(_CARD, f"{card}\n{described(*VIEWS, level='##')}".encode())
            )
        if alone:
            changes += [
                CommitOperationDelete(path) for path in snapshot.files if path not in _BESIDE
            ]
        self.api.create_commit(
            **self.where, operations=changes, commit_message="Backup", parent_commit=snapshot.commit
        )

    def forget(self, *, squash: bool) -> None:
        """Free the storage of committed files (named) outside the newest commit. Squashes history
        if there are any, or with ``squash``."""
        needed, stored = set(self.look().files.values()), self.api.list_lfs_files(**self.where)
        gone = [
            each
            for each in stored
            if each.filename and needed.isdisjoint((each.oid, each.file_oid))
        ]
        if gone or squash:
            self.api.super_squash_history(**self.where, commit_message="Backup")
            self.api.permanently_delete_lfs_files(
                **self.where, lfs_files=gone, rewrite_history=False
            )

    def reason(self, error: BaseException) -> str:
        """The reason of an error, without addresses, tokens and paths."""
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
