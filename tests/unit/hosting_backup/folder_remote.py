"""A place for backups in a folder, with faults to be injected: what the tests of the writer and of the thread push to."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from hosting.backup.manifest import NAME
from hosting.backup.remote import GoOn, NoFile, RemoteChanged, RemoteError, Seen


class FolderRemote:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = "the test's folder"
        self.faults: dict[str, list[Callable[[], None] | None]] = {}  # by method: one a call, None for none
        self.calls: list[str] = []
        self.tidied: list[list[str]] = []
        (folder / "snapshots").mkdir(parents=True, exist_ok=True)

    def fail(self, method: str, *faults: Callable[[], None] | None) -> None:
        self.faults.setdefault(method, []).extend(faults)

    @property
    def manifest(self) -> bytes | None:
        path = self.folder / NAME
        return path.read_bytes() if path.exists() else None

    @property
    def names(self) -> list[str]:
        return sorted(f"snapshots/{path.name}" for path in (self.folder / "snapshots").iterdir())

    def read(self) -> Seen:
        self._fault("read")
        return Seen(self.manifest, self._version())

    def fetch(self, name: str, version: str, target: Path) -> None:
        assert version
        self._fault("fetch")
        if not (self.folder / name).exists():
            raise NoFile("it is not there any more.")
        shutil.copy(self.folder / name, target)

    def write(
        self, manifest: bytes, add: tuple[str, Path] | None, drop: Collection[str], version: str, go_on: GoOn
    ) -> str:
        self._fault("write")
        go_on()
        if self._version() != version:
            raise RemoteChanged("Somebody else wrote meanwhile.")
        if add is not None:
            shutil.copy(add[1], self.folder / add[0])
        for name in drop:
            (self.folder / name).unlink()
        part = self.folder / "part"
        part.write_bytes(manifest)
        part.replace(self.folder / NAME)  # a place shows the old one or the new one
        self._fault("answer")
        return self._version()

    def tidy(self, keep: Collection[str]) -> None:
        self._fault("tidy")
        self.tidied.append(list(keep))

    def _version(self) -> str:
        return hashlib.sha256(self.manifest or b"").hexdigest()

    def _fault(self, method: str) -> None:
        self.calls.append(method)
        waiting = self.faults.get(method)
        fault = waiting.pop(0) if waiting else None
        if fault is not None:
            fault()


def unreachable() -> None:
    raise RemoteError("The test's folder could not be reached.")
