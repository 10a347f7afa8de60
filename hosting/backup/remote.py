"""What a place for backups must be able to do, and how it fails. Knows no kind of place."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

GoOn = Callable[[], None]  # raises GivenUp when nobody waits for the outcome any more


class RemoteError(RuntimeError):
    """It did not work this time; whether a write took place is not known. The message is one sentence, without secrets."""


class RemoteRefused(RemoteError):
    """The token may not do this, or the place must not be used."""


class RemoteChanged(RemoteError):
    """Somebody wrote there since it was read: nothing was written."""


class GivenUp(RemoteError):
    """It took too long."""


class NoFile(RemoteError):
    """The manifest names a file that is not there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there: the text of manifest.json, None in an empty place, and which state of the place this was."""

    manifest: bytes | None
    version: str


class Remote(Protocol):
    """A private place that holds manifest.json and the folder snapshots, and nothing else. Methods raise RemoteError."""

    @property
    def place(self) -> str:
        """For people: as the setting names it."""

    def read(self) -> Seen:
        """What is there now; the place is made, private, where it is missing."""

    def fetch(self, name: str, version: str, target: Path) -> None:
        """Download one file. Raises NoFile too."""

    def write(
        self, manifest: bytes, add: tuple[str, Path] | None, drop: Collection[str], version: str, go_on: GoOn
    ) -> str:
        """Add a file, change the manifest, remove files, unless the place is no longer as at ``version``; the new version."""

    def tidy(self, keep: Collection[str]) -> None:
        """Remove for good what earlier writes left: history, and snapshots older than all in ``keep`` (never empty)."""
