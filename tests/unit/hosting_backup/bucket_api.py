"""A stand-in of HfApi's calls for buckets, each checked against the signature of the real one; their transport is not played."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2
from huggingface_hub import BucketFile, BucketInfo, HfApi
from huggingface_hub.errors import BucketNotFoundError, HfHubHTTPError


def failed(status: int, kind: type[HfHubHTTPError] = HfHubHTTPError) -> HfHubHTTPError:
    """As huggingface_hub raises it."""
    request = httpx2.Request("POST", "https://hub.invalid/api/buckets?token=secret")
    return kind(f"{status} for {request.url}", response=httpx2.Response(status, request=request))


class BucketApi:
    def __init__(self) -> None:
        self.files: dict[str, bytes] | None = None  # None: there is no such bucket
        self.private = False
        self.faults: dict[str, list[Callable[[], None] | None]] = {}
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        """Every call must be one that the real HfApi understands; then the next fault, if there is one."""
        found = super().__getattribute__(name)
        if name.startswith("_") or not inspect.ismethod(found) or name == "fail":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            inspect.signature(getattr(HfApi, name)).bind(self, *args, **kwargs)
            self.calls.append(name)
            waiting = self.faults.get(name)
            fault = waiting.pop(0) if waiting else None
            if fault is not None:
                fault()
            return found(*args, **kwargs)

        return call

    def fail(self, method: str, *faults: Callable[[], None] | None) -> None:
        self.faults.setdefault(method, []).extend(faults)

    def bucket_info(self, bucket_id: str) -> Any:
        if self.files is None:
            raise failed(404, BucketNotFoundError)
        size = sum(map(len, self.files.values()))
        return BucketInfo(
            id=bucket_id,
            private=self.private,
            createdAt="2026-11-21T00:00:00.000Z",
            size=size,
            totalFiles=len(self.files),
        )

    def create_bucket(self, bucket_id: str, *, private: bool, exist_ok: bool) -> None:
        assert bucket_id and exist_ok
        self.files, self.private = {}, private

    def get_bucket_paths_info(self, bucket_id: str, paths: Iterable[str]) -> Iterator[BucketFile]:
        assert bucket_id
        return iter([self._file(path) for path in paths if path in (self.files or {})])

    def list_bucket_tree(
        self, bucket_id: str, prefix: str | None = None, *, recursive: bool | None = None
    ) -> Iterator[BucketFile]:
        assert bucket_id and recursive
        return iter([self._file(path) for path in self.files or {} if path.startswith(prefix or "")])

    def download_bucket_files(self, bucket_id: str, files: list[tuple[BucketFile, Path]]) -> None:
        assert bucket_id and self.files is not None
        for file, target in files:
            Path(target).write_bytes(self.files[file.path])

    def batch_bucket_files(
        self,
        bucket_id: str,
        *,
        add: list[tuple[str | Path | bytes, str]] | None = None,
        delete: list[str] | None = None,
    ) -> None:
        assert bucket_id and self.files is not None
        for source, path in add or ():
            self.files[path] = source if isinstance(source, bytes) else Path(source).read_bytes()
        for path in delete or ():
            del self.files[path]

    def _file(self, path: str) -> BucketFile:
        content = (self.files or {})[path]
        return BucketFile(
            type="file",
            path=path,
            size=len(content),
            xetHash=hashlib.sha256(content).hexdigest(),
            mtime="2026-11-21T00:00:00.000Z",
        )
