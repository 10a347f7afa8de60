"""A database file as a gzip file, and back. The same file always packs to the same bytes. Knows no place."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

_CHUNK = 1 << 20
_LEVEL = 1  # at level 6 three times as long for a tenth less


class PackingError(ValueError):
    """The file is not what it should be. The message is one sentence."""


def pack(source: Path, target: Path) -> str:
    """Write ``source`` packed to ``target``; returns the SHA-256 of what was written, hexadecimal."""
    with (
        source.open("rb") as plain,
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed,
    ):
        while chunk := plain.read(_CHUNK):
            packed.write(chunk)
    with target.open("rb") as written:
        return hashlib.file_digest(written, "sha256").hexdigest()


def unpack(source: Path, target: Path, size: int, sha256: str) -> None:
    """Write what is packed in ``source`` to ``target``: ``size`` bytes with that SHA-256. Raises PackingError."""
    digest, written = hashlib.sha256(), 0
    try:
        with gzip.open(source, "rb") as packed, target.open("wb") as plain:
            while chunk := packed.read(_CHUNK):
                written += len(chunk)
                if written > size:
                    raise PackingError(f"it holds more than the {size} bytes it should.")
                digest.update(chunk)
                plain.write(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise PackingError("it is cut off or damaged.") from None
    if written != size or digest.hexdigest() != sha256:
        raise PackingError("its content is not the one that was backed up.")
