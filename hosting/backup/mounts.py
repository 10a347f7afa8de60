"""A path on a mounted bucket is refused: writes come late there, and a crash loses them, which SQLite does not survive."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_LOCAL = "fuse.fuse-overlayfs"  # the disk of a container without root
_LOOPBACK = ("localhost", "127.0.0.1", "::1")  # a bucket mounted by NFS is served by a program on the same machine
_OCTAL = re.compile(r"\\([0-7]{3})")


def refuse_mounted(database: Path, table: Iterable[str] | None = None) -> None:
    """Raise ValueError where ``database``, which need not exist, lies on a mounted bucket.

    ``table``: lines of mountinfo; None: this system's. Of several mounts the deepest counts, of those at one point the last.
    """
    if table is None:
        table = _TABLE.read_text(errors="surrogateescape").splitlines() if _TABLE.exists() else ()
    real, point, kind, source = database.resolve(), Path(), "", ""
    for line in table:
        before, dash, after = line.partition(" - ")
        place, what = before.split(), after.split()
        if dash and len(place) >= 5 and len(what) >= 2:
            here = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), place[4]))
            if real.is_relative_to(here) and len(here.parts) >= len(point.parts):
                point, kind, source = here, what[0], what[1]
    served = kind in ("nfs", "nfs4") and source.rpartition(":")[0].strip("[]") in _LOOPBACK
    if served or (kind.partition(".")[0] == "fuse" and kind != _LOCAL):
        raise ValueError(
            f"The database {database} lies on {point}, a mounted bucket or file system of kind {kind}, on which SQLite loses "
            "data; set MARS_DATABASE_URL to a file on a local disk and let MARS_BACKUP_REPO name a repository."
        )
