"""One page and its place for backups: restores, takes over, pushes. Each call does its work and returns; knows no threads.

The page that started last writes: at its start it puts its name into the manifest, after which the push of any other is refused.
Nobody pushes over what he has not got: a database of which it is not known that it holds what the backup holds is left alone.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hosting.backup import manifest as form
from hosting.backup.lineage import new_writer, read_lineage, write_lineage
from hosting.backup.manifest import Entry, Manifest, ManifestError
from hosting.backup.packing import pack
from hosting.backup.remote import GivenUp, GoOn, Remote, RemoteChanged, RemoteError, RemoteRefused, Seen
from hosting.backup.restore import fetch_newest, put
from storage.database import known_schemas
from storage.snapshot import Snapshot, write_snapshot

TIDY_EVERY = timedelta(days=1)  # and once after the start
TRIES = 3  # when others write at the same time
BEGIN_PAUSES_S = (1.0, 4.0)  # before the place is asked again at the start


class NotOurs(Exception):
    """This page may not push any more, or must not yet; a person has to decide. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The place as this page last saw it, its own."""

    manifest: Manifest
    version: str


class Writer:
    """Used by one thread at a time. Methods raise NotOurs, RemoteError, StorageError, OSError."""

    def __init__(self, database: Path, remote: Remote, log: logging.Logger, before: Writer | None = None) -> None:
        """``before``: one that was given up while it waited for the place; who knows when that ends."""
        self._database = database
        self._remote = remote
        self._log = log
        self._known: _Known | None = None  # None: to be read before anything is written
        self._writer: str = before._writer if before else new_writer()
        self._agreed: bool = before is not None and before._agreed  # whether this page ever held what the place holds
        self._entries: tuple[Entry, ...] = ()  # as last agreed
        self._tidied: datetime | None = None
        self.sha256: str | None = None  # of the database as it was last pushed or restored
        self.schemas = known_schemas()

    @property
    def generation(self) -> int:
        return self._known.manifest.generation if self._known else 0

    def begin(self, go_on: GoOn) -> str:
        """Restore if there is no database here, and take over; returns a sentence that says what was done."""
        for pause_s in BEGIN_PAUSES_S:
            try:
                return self._begin(go_on)
            except RemoteRefused:
                raise
            except RemoteError:
                time.sleep(pause_s)
                go_on()
        return self._begin(go_on)

    def push(self, go_on: GoOn) -> Entry | None:
        """Push a snapshot; None where the last one holds the same."""
        for _ in range(TRIES):
            try:
                return self._push(go_on)
            except RemoteChanged:
                self._known = None
        raise RemoteError(f"Others keep writing to {self._remote.place}.")

    def tidy(self) -> None:
        """Once a day: remove for good what was dropped."""
        now = datetime.now(UTC)
        if self._known is None or not self._entries or (self._tidied and now - self._tidied < TIDY_EVERY):
            return
        self._known = None  # it is another state of the place afterwards
        self._remote.tidy([entry.name for entry in self._entries])
        self._tidied = now

    def clean(self) -> None:
        """Remove what a killed process left half made."""
        for folder in self._database.parent.glob(f".{self._database.name}.backup-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def stale(self) -> bool:
        """Whether snapshots are kept that are too old by now."""
        return form.kept(self._entries, self.schemas, datetime.now(UTC)) != self._entries

    def _begin(self, go_on: GoOn) -> str:
        seen = self._remote.read()
        manifest = self._manifest(seen)
        place = self._remote.place
        if self._database.exists():
            self._follow(seen, manifest)
            return f"The database goes on; it is backed up to {place}."
        if manifest is None or not manifest.entries:
            return f"There is no backup at {place} yet."
        entry = self._restore(seen, manifest, go_on)
        return f"Restored {_runs(entry)} of {entry.time:%Y-%m-%d %H:%M} UTC from {place}."

    def _restore(self, seen: Seen, manifest: Manifest, go_on: GoOn) -> Entry:
        self._database.parent.mkdir(parents=True, exist_ok=True)
        with self._folder() as folder:
            found = fetch_newest(self._remote, seen.version, manifest.entries, self.schemas, folder, self._log)
            if found is None:
                raise NotOurs(
                    f"No snapshot at {self._remote.place} is whole and of a version known here; nothing is pushed over them. "
                    "Update the app, or name another MARS_BACKUP_REPO."
                )
            entry, plain = found
            go_on()
            mine = self._claim(seen, manifest, go_on)
            go_on()
            put(plain, self._database)
        self._note(mine.manifest if mine else manifest)
        self._known, self.sha256 = mine, entry.sha256
        return entry

    def _claim(self, seen: Seen, manifest: Manifest, go_on: GoOn) -> _Known | None:
        """Put this page's name into the manifest: whoever wrote until now is refused from here on. None where that may have
        failed; the next push finds out. Raises RemoteChanged: what was fetched is not the newest any more.
        """
        mine = Manifest(self._writer, manifest.generation + 1, manifest.entries)
        try:
            version = self._remote.write(form.to_bytes(mine), None, (), seen.version, go_on)
        except (RemoteChanged, RemoteRefused, GivenUp):
            raise
        except RemoteError as error:
            self._log.warning("The backup was not taken over at the start: %s", error)
            return None
        return _Known(mine, version)

    def _follow(self, seen: Seen, manifest: Manifest | None) -> None:
        """There is a database here. Find that it holds what the place holds, or raise NotOurs."""
        place = self._remote.place
        lineage = read_lineage(self._database, place)
        if lineage is not None:
            self._writer = lineage.writer
        if manifest is None or not manifest.entries:
            manifest = manifest or Manifest(self._writer, 0)
        elif lineage is not None and lineage.covers(manifest.writer, manifest.generation):
            self.sha256 = manifest.entries[0].sha256
        elif self._agreed:
            raise NotOurs(f"Another page has taken over the backup at {place}; this one pushes no more. {self._kept()}")
        else:
            raise NotOurs(
                f"The backup at {place} holds {_runs(manifest.entries[0])} of which it is not known that they are in the "
                f"database here; nothing is pushed over them. {self._kept()} To go on from the backup, move that file away and "
                "start again; to go on from the file, name another MARS_BACKUP_REPO."
            )
        self._known = _Known(manifest, seen.version)
        self._note(manifest)

    def _push(self, go_on: GoOn) -> Entry | None:
        if self._known is None:
            seen = self._remote.read()
            self._follow(seen, self._manifest(seen))
        known = self._known
        assert known is not None
        with self._folder() as folder:
            snapshot = write_snapshot(self._database, folder / "snapshot.db")
            now = datetime.now(UTC)
            if snapshot.sha256 == self.sha256 and not self.stale():
                return None
            packed = folder / "snapshot.db.gz"
            packed_sha256 = pack(snapshot.path, packed)
            go_on()
            entry = _entry(known.manifest.generation + 1, snapshot, packed, packed_sha256, now)
            entries = form.kept((entry, *known.manifest.entries), self.schemas, now)
            mine = Manifest(self._writer, entry.generation, entries)
            drop = sorted({old.name for old in known.manifest.entries} - {new.name for new in entries})
            self._known = None  # whatever happens now: read before the next write
            version = self._remote.write(form.to_bytes(mine), (entry.name, packed), drop, known.version, go_on)
        self._note(mine)
        self._known, self.sha256 = _Known(mine, version), entry.sha256
        return entry

    def _note(self, manifest: Manifest) -> None:
        """The database holds what the place holds."""
        write_lineage(self._database, self._remote.place, self._writer, manifest.writer, manifest.generation)
        self._entries = manifest.entries
        self._agreed = True

    def _manifest(self, seen: Seen) -> Manifest | None:
        try:
            return None if seen.manifest is None else form.from_bytes(seen.manifest)
        except ManifestError as error:
            raise NotOurs(
                f"The backup at {self._remote.place} cannot be read, so nothing is pushed there: {error}"
            ) from None

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """For what is passing through: beside the database, which has the room and is on the same file system."""
        with tempfile.TemporaryDirectory(
            prefix=f".{self._database.name}.backup-", dir=self._database.parent, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)

    def _kept(self) -> str:
        return f"All runs of this page stay in {self._database}."


def _entry(generation: int, snapshot: Snapshot, packed: Path, packed_sha256: str, now: datetime) -> Entry:
    return Entry(
        name=form.entry_name(generation, packed_sha256),
        generation=generation,
        sha256=snapshot.sha256,
        bytes=snapshot.bytes,
        packed_bytes=packed.stat().st_size,
        schema=snapshot.schema,
        comparisons=snapshot.comparisons,
        time=now,
    )


def _runs(entry: Entry) -> str:
    return f"{entry.comparisons:,} comparison{'' if entry.comparisons == 1 else 's'}"
