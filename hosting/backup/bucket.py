"""A private bucket on the Hub as a place for backups. A bucket has no commits: the manifest is read again directly before and
directly after it is written. Two writers within that second may both believe to have written; the one whose manifest
is gone notices at its next write, and no snapshot is lost, since each has a name of its own.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection
from pathlib import Path

from huggingface_hub import BucketFile, HfApi
from huggingface_hub.errors import BucketNotFoundError

from hosting.backup import manifest as form
from hosting.backup.hub import spoken
from hosting.backup.remote import GoOn, NoFile, RemoteChanged, RemoteRefused, Seen


class BucketRemote:
    """``bucket``: owner/name. Nothing but manifest.json and the folder snapshots is touched."""

    def __init__(self, api: HfApi, bucket: str) -> None:
        self._api = api
        self._bucket = bucket
        self.place = f"the bucket {bucket}"

    def read(self) -> Seen:
        with spoken(self.place):
            try:
                info = self._api.bucket_info(self._bucket)
            except BucketNotFoundError:
                self._api.create_bucket(self._bucket, private=True, exist_ok=True)
                info = self._api.bucket_info(self._bucket)
            if not info.private:
                raise RemoteRefused(f"{self.place} is public, and backups hold prompts and texts; make it private.")
            manifest = self._manifest()
        return Seen(manifest, _version(manifest))

    def fetch(self, name: str, version: str, target: Path) -> None:  # noqa: ARG002  (names are never used twice)
        with spoken(self.place):
            self._download(name, target)

    def write(
        self, manifest: bytes, add: tuple[str, Path] | None, drop: Collection[str], version: str, go_on: GoOn
    ) -> str:
        with spoken(self.place):
            if add is not None:
                self._expect(version)  # before anything is sent
                self._api.batch_bucket_files(self._bucket, add=[(add[1], add[0])])
            go_on()
            self._expect(version)
            self._api.batch_bucket_files(self._bucket, add=[(manifest, form.NAME)])
            self._expect(_version(manifest))
            present = {file.path for file in self._api.get_bucket_paths_info(self._bucket, drop)} if drop else set()
            if present:
                self._api.batch_bucket_files(self._bucket, delete=sorted(present))
        return _version(manifest)

    def tidy(self, keep: Collection[str]) -> None:
        """Remove what interrupted writes left."""
        oldest = min(generation for name in keep if (generation := form.generation_of(name)) is not None)
        with spoken(self.place):
            there = [
                item.path
                for item in self._api.list_bucket_tree(self._bucket, prefix=form.FOLDER, recursive=True)
                if isinstance(item, BucketFile)
            ]
            gone = [
                path
                for path in there
                if path not in keep and (generation := form.generation_of(path)) is not None and generation < oldest
            ]
            if gone:
                self._api.batch_bucket_files(self._bucket, delete=gone)

    def _expect(self, version: str) -> None:
        if _version(self._manifest()) != version:
            raise RemoteChanged(f"Somebody else wrote to {self.place} meanwhile.")

    def _manifest(self) -> bytes | None:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / form.NAME
            try:
                self._download(form.NAME, target)
            except NoFile:
                return None
            return target.read_bytes()

    def _download(self, name: str, target: Path) -> None:
        found = list(self._api.get_bucket_paths_info(self._bucket, [name]))
        if not found:
            raise NoFile("it is not there any more.")
        self._api.download_bucket_files(self._bucket, [(found[0], target)])


def _version(manifest: bytes | None) -> str:
    return "" if manifest is None else hashlib.sha256(manifest).hexdigest()
