"""A snapshot from a place into a database file that is not there: checked first, then put there whole. Knows no threads."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

from hosting.backup.manifest import Entry
from hosting.backup.packing import PackingError, unpack
from hosting.backup.remote import NoFile, Remote
from storage import StorageError
from storage.snapshot import check_snapshot

_LEFT = ("-journal", "-wal", "-shm")  # what a database that is gone may have left; SQLite would apply it to the new one


def fetch_newest(
    remote: Remote, version: str, entries: Iterable[Entry], known: Collection[str], folder: Path, log: logging.Logger
) -> tuple[Entry, Path] | None:
    """The newest snapshot that is whole and of a ``known`` schema, unpacked in ``folder``; None where none is. Raises RemoteError,
    and OSError, as for a full disk.
    """
    for entry in entries:
        if entry.schema not in known:
            log.warning("The snapshot %s has the schema %s, which is not known here.", entry.name, entry.schema)
            continue
        packed, plain = folder / "fetched.gz", folder / "fetched.db"
        try:
            remote.fetch(entry.name, version, packed)
            unpack(packed, plain, entry.bytes, entry.sha256)
            check_snapshot(plain)
        except (NoFile, PackingError, StorageError) as error:
            log.warning("The snapshot %s cannot be used: %s", entry.name, error)
            continue
        return entry, plain
    return None


def put(plain: Path, database: Path) -> None:
    """Move a checked file to where the database belongs, unless there is one by now. Raises OSError."""
    if database.exists():
        raise FileExistsError(errno.EEXIST, "There is a database by now", str(database))
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for name in (database.with_name(database.name + end) for end in _LEFT):
        if name.exists():
            name.rename(name.with_name(f"{name.name}.left-{stamp}"))
    _to_disk(plain)
    _move(plain, database)
    _to_disk(database.parent)


def _move(plain: Path, database: Path) -> None:
    try:
        os.link(plain, database)  # unlike a rename, never replaces
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if database.exists():
            raise
        plain.rename(database)
    else:
        plain.unlink()


def _to_disk(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
