"""A private dataset repository on the Hub as a place for backups. Every write is one commit upon the one that was read; the Hub
refuses it when there is another by then.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, DatasetInfo, HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from hosting.backup import manifest as form
from hosting.backup.hub import spoken
from hosting.backup.remote import GoOn, NoFile, RemoteError, RemoteRefused, Seen

_TYPE = "dataset"
_ASK_S = 20.0  # for short answers
_OTHERS = (".gitattributes", "README.md")  # what the Hub, or a person, puts beside


class DatasetRemote:
    """``repo``: owner/name. The repository must be private and hold nothing but backups: its history is squashed."""

    def __init__(self, api: HfApi, repo: str) -> None:
        self._api = api
        self._repo = repo
        self.place = f"the dataset repository {repo}"

    def read(self) -> Seen:
        with spoken(self.place):
            info = self._info()
            names = {sibling.rfilename for sibling in info.siblings or ()}
            self._check(info, names)
            if not info.sha:
                raise RemoteError(f"{self.place} told no commit.")
            if form.NAME not in names:
                return Seen(None, info.sha)
            with tempfile.TemporaryDirectory() as folder:
                return Seen(self._download(form.NAME, info.sha, Path(folder)).read_bytes(), info.sha)

    def fetch(self, name: str, version: str, target: Path) -> None:
        with spoken(self.place), tempfile.TemporaryDirectory(dir=target.parent) as folder:
            try:
                self._download(name, version, Path(folder)).replace(target)
            except HfHubHTTPError as error:
                if error.response.status_code in (404, 410):
                    raise NoFile("it is not there any more.") from None
                raise

    def write(
        self, manifest: bytes, add: tuple[str, Path] | None, drop: Collection[str], version: str, go_on: GoOn
    ) -> str:
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(path_in_repo=form.NAME, path_or_fileobj=manifest)
        ]
        if add is not None:
            operations.append(CommitOperationAdd(path_in_repo=add[0], path_or_fileobj=str(add[1])))
        operations += [CommitOperationDelete(path_in_repo=name, is_folder=False) for name in drop]
        with spoken(self.place):
            done = self._api.create_commit(
                self._repo,
                operations,
                commit_message=f"Backup {add[0]}" if add else "A page took over",
                repo_type=_TYPE,
                parent_commit=version,
            )
        go_on()
        return done.oid

    def tidy(self, keep: Collection[str]) -> None:
        """Squash the history, then free the storage of what no commit holds any more."""
        oldest = min(generation for name in keep if (generation := form.generation_of(name)) is not None)
        with spoken(self.place):
            self._api.super_squash_history(self._repo, repo_type=_TYPE, commit_message="Backup")
            gone = [
                file
                for file in self._api.list_lfs_files(self._repo, repo_type=_TYPE)
                if (generation := form.generation_of(file.filename)) is not None and generation < oldest
            ]
            if gone:
                self._api.permanently_delete_lfs_files(self._repo, gone, rewrite_history=False, repo_type=_TYPE)

    def _info(self) -> DatasetInfo:
        try:
            return self._api.dataset_info(self._repo, timeout=_ASK_S)
        except RepositoryNotFoundError:
            self._api.create_repo(self._repo, repo_type=_TYPE, private=True, exist_ok=True)
            return self._api.dataset_info(self._repo, timeout=_ASK_S)

    def _check(self, info: DatasetInfo, names: Collection[str]) -> None:
        if not info.private:
            raise RemoteRefused(f"{self.place} is public, and backups hold prompts and texts; make it private.")
        other = sorted(
            name for name in names if name not in (form.NAME, *_OTHERS) and not name.startswith(f"{form.FOLDER}/")
        )
        if other:
            raise RemoteRefused(f"{self.place} holds other files than backups; give them a repository of their own.")

    def _download(self, name: str, version: str, folder: Path) -> Path:
        return Path(
            self._api.hf_hub_download(
                self._repo, name, repo_type=_TYPE, revision=version, local_dir=folder, etag_timeout=_ASK_S
            )
        )
