"""manifest.json: which snapshots there are, who wrote last. Values and their text; knows no place and no database.

What is read was written elsewhere: whatever is no manifest is refused with one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

NAME = "manifest.json"
FOLDER = "snapshots"
FORMAT = 1
LARGEST = 65_536  # bytes of a manifest
MOST = 64  # entries
KEPT = 5  # snapshots of the last pushes
KEPT_FOR = timedelta(days=7)  # all but the newest: what a visitor deletes leaves the backup within this time

_SHA256 = re.compile(r"[0-9a-f]{64}")
_WRITER = re.compile(r"[0-9a-f]{16}")
_ENTRY_NAME = re.compile(rf"{FOLDER}/[0-9]{{8}}-[0-9a-f]{{12}}\.db\.gz")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ManifestError(ValueError):
    """The text is no manifest that this version can read. The message is one sentence for people."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One snapshot. ``sha256`` and ``bytes`` are the database's, ``packed_bytes`` those of the file that is stored."""

    name: str  # path in the repository or bucket
    generation: int
    sha256: str
    bytes: int
    packed_bytes: int
    schema: str
    comparisons: int
    time: datetime  # UTC


@dataclass(frozen=True, slots=True)
class Manifest:
    """``writer``: who may push; ``generation`` grows by one with every write of anybody. ``entries``: newest first."""

    writer: str
    generation: int
    entries: tuple[Entry, ...] = ()


def entry_name(generation: int, packed_sha256: str) -> str:
    """A name of its own for every content, so that no late upload can change what an entry means."""
    return f"{FOLDER}/{generation:08d}-{packed_sha256[:12]}.db.gz"


def to_bytes(manifest: Manifest) -> bytes:
    """As UTF-8 JSON, the same for the same manifest."""
    entries = [
        {
            "name": entry.name,
            "generation": entry.generation,
            "sha256": entry.sha256,
            "bytes": entry.bytes,
            "packed_bytes": entry.packed_bytes,
            "schema": entry.schema,
            "comparisons": entry.comparisons,
            "time": entry.time.astimezone(UTC).isoformat(timespec="seconds"),
        }
        for entry in manifest.entries
    ]
    whole = {"format": FORMAT, "writer": manifest.writer, "generation": manifest.generation, "snapshots": entries}
    return json.dumps(whole, indent=1).encode() + b"\n"


def from_bytes(text: bytes) -> Manifest:
    """Raises ManifestError."""
    if len(text) > LARGEST:
        raise ManifestError(f"{NAME} has {len(text)} bytes; {LARGEST} are the most.")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise ManifestError(f"{NAME} is no JSON.") from None
    if not isinstance(said, dict) or type(said.get("format")) is not int:
        raise ManifestError(f"{NAME} is no list of snapshots.")
    if said["format"] != FORMAT:
        raise ManifestError(f"{NAME} has format {said['format']}, made by a newer version of MARS Playground.")
    entries = said.get("snapshots")
    if not isinstance(entries, list) or len(entries) > MOST:
        raise ManifestError(f"{NAME} has no list of at most {MOST} snapshots.")
    read = tuple(sorted(map(_entry, entries), key=lambda entry: entry.generation, reverse=True))
    return Manifest(_word(said, "writer", _WRITER), _number(said, "generation"), read)


def kept(entries: Collection[Entry], known: Collection[str], now: datetime) -> tuple[Entry, ...]:
    """Those to keep, newest first: the last KEPT, and but for the newest of them none that is older than KEPT_FOR.

    As many of schemas that are not ``known`` stay, however old: a later version of the app may want them.
    """
    ordered = sorted(entries, key=lambda entry: entry.generation, reverse=True)
    readable = [entry for entry in ordered if entry.schema in known][:KEPT]
    young = [entry for entry in readable[1:] if now - entry.time <= KEPT_FOR]
    later = [entry for entry in ordered if entry.schema not in known][:KEPT]
    return tuple(sorted([*readable[:1], *young, *later], key=lambda entry: entry.generation, reverse=True))


def is_writer(word: str) -> bool:
    """Whether it can be the name of a writer."""
    return _WRITER.fullmatch(word) is not None


def generation_of(name: str) -> int | None:
    """The generation that a stored file was made in; None for what is no snapshot."""
    return int(name.split("/")[1].split("-")[0]) if _ENTRY_NAME.fullmatch(name) else None


def _entry(said: Any) -> Entry:
    if not isinstance(said, dict):
        raise ManifestError(f"{NAME} has a snapshot without fields.")
    return Entry(
        name=_word(said, "name", _ENTRY_NAME),
        generation=_number(said, "generation"),
        sha256=_word(said, "sha256", _SHA256),
        bytes=_number(said, "bytes"),
        packed_bytes=_number(said, "packed_bytes"),
        schema=_word(said, "schema", _WORD),
        comparisons=_number(said, "comparisons"),
        time=_time(said),
    )


def _word(said: Mapping[str, Any], field: str, pattern: re.Pattern[str]) -> str:
    value = said.get(field)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ManifestError(f"{NAME} has no good {field}.")
    return value


def _number(said: Mapping[str, Any], field: str) -> int:
    value = said.get(field)
    if type(value) is not int or not 0 <= value < 2**53:
        raise ManifestError(f"{NAME} has no good {field}.")
    return value


def _time(said: Mapping[str, Any]) -> datetime:
    value = said.get("time")
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ManifestError(f"{NAME} has no good time.")
    return time.astimezone(UTC)
