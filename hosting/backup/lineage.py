"""What a database file knows of its backup: a small JSON file beside it. Without it nobody can tell whether it holds what the
backup holds, and nothing may be pushed over that.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hosting.backup.manifest import is_writer

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Lineage:
    """The database holds all that ``place`` held when ``base_writer`` had written ``base_generation``, and all that ``writer``,
    which is the name of this file's pages, ever writes there.
    """

    place: str
    writer: str  # 16 hexadecimal digits
    base_writer: str
    base_generation: int
    inode: int  # of the database file: a file made anew in its place holds nothing of the sort

    def covers(self, writer: str, generation: int) -> bool:
        """Whether the database holds what was written there last."""
        return writer == self.writer or (writer, generation) == (self.base_writer, self.base_generation)


def new_writer() -> str:
    """A name that no other page has."""
    return secrets.token_hex(8)


def beside(database: Path) -> Path:
    """The file that says it."""
    return database.with_name(f"{database.name}.backup.json")


def read_lineage(database: Path, place: str) -> Lineage | None:
    """None where nothing is said of this file and this place."""
    try:
        said: Any = json.loads(beside(database).read_text())
        found = Lineage(
            place=str(said["place"]),
            writer=str(said["writer"]),
            base_writer=str(said["base_writer"]),
            base_generation=int(said["base_generation"]),
            inode=int(said["inode"]),
        )
        fits = said["format"] == _FORMAT and found.place == place and found.inode == database.stat().st_ino
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return found if fits and is_writer(found.writer) else None


def write_lineage(database: Path, place: str, writer: str, base_writer: str, base_generation: int) -> None:
    """Say it of the file that is there now, whole or not at all. Raises OSError."""
    lineage = Lineage(place, writer, base_writer, base_generation, database.stat().st_ino)
    target = beside(database)
    part = target.with_name(f"{target.name}.part")
    with part.open("w") as file:
        json.dump({"format": _FORMAT, **asdict(lineage)}, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(target)
