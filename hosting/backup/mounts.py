"""Whether a path lies on a mounted bucket, where SQLite must not be: writes come late there, and a crash loses them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_LOCAL = ("fuse.fuse-overlayfs",)  # the disk of a container without root
_LOOPBACK = ("localhost", "127.0.0.1", "::1")  # a bucket mounted by NFS is served by a program on the same machine
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    point: Path
    kind: str  # as ext4, fuse.hf-mount
    source: str

    @property
    def remote(self) -> bool:
        """Whether what is written here goes to a bucket or to another program, not to a disk."""
        if self.kind in ("nfs", "nfs4"):
            return self.source.rpartition(":")[0].strip("[]") in _LOOPBACK
        return (self.kind == "fuse" or self.kind.startswith("fuse.")) and self.kind not in _LOCAL


def refuse_mounted(database: Path, table: Iterable[str] | None = None) -> None:
    """Raise ValueError where ``database`` lies on a mounted bucket. ``table``: lines of mountinfo; None: this system's."""
    mount = mount_of(database, read_mounts(table))
    if mount is not None and mount.remote:
        raise ValueError(
            f"The database {database} lies on {mount.point}, a mounted bucket or file system of kind {mount.kind}, on which "
            "SQLite loses data; set MARS_DATABASE_URL to a file on a local disk and let MARS_BACKUP_REPO name the bucket."
        )


def mount_of(path: Path, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that ``path``, which need not exist, is on: the deepest; of several at one point the last, which hides the others."""
    real = path.resolve()
    found: Mount | None = None
    for mount in mounts:
        deeper = found is None or len(mount.point.parts) >= len(found.point.parts)
        if deeper and real.is_relative_to(mount.point):
            found = mount
    return found


def read_mounts(table: Iterable[str] | None = None) -> tuple[Mount, ...]:
    """All mounts; none on a system without that table."""
    if table is None:
        table = _TABLE.read_text(errors="surrogateescape").splitlines() if _TABLE.exists() else ()
    return tuple(mount for line in table if (mount := _mount(line)) is not None)


def _mount(line: str) -> Mount | None:
    before, dash, after = line.partition(" - ")
    place, what = before.split(), after.split()
    if not dash or len(place) < 5 or len(what) < 2:
        return None
    return Mount(Path(_plain(place[4])), what[0], _plain(what[1]))


def _plain(word: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), word)
