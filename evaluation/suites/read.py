"""Reads a suite: a built-in one by its name, or a file with one JSON object a line (question.jsonl of Spec-Bench, EAGLE, FastChat)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from evaluation.suites.demo import BUILT_IN
from evaluation.suites.item import Item, Suite
from evaluation.suites.kinds import graded, union
from evaluation.suites.rows import read_row

QUESTIONS = "question.jsonl"  # in a folder that has the suite's name, as EAGLE and Spec-Bench keep it
LONGEST_LINE = 4 * 2**20  # bytes
LONGEST_FILE = 2**30  # bytes
MOST_ITEMS = 100_000
_BOM = b"\xef\xbb\xbf"


def read_suite(source: str, limit: int | None = None) -> Suite:
    """The suite of a path (a file, or a folder with question.jsonl) or a built-in name; ``limit``: its first items only.

    What scores it is found from the whole file, whatever the limit: from its name, its categories, and what its references look like.
    Raises ValueError, one sentence with the file, the line and what is wrong.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; it must be at least 1, or be left out.")
    suite = BUILT_IN[source]() if source in BUILT_IN else _read(_file(source), source)
    return suite if limit is None else _first(suite, limit)


def _first(suite: Suite, limit: int) -> Suite:
    """The first items; a mixed suite keeps the metrics that they use."""
    items = suite.items[:limit]
    metrics = union(items) if union(suite.items) else suite.metrics
    return replace(suite, items=items, metrics=metrics)


def _file(source: str) -> Path:
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            path /= QUESTIONS
        if path.is_file():
            return path
    except (OSError, ValueError):  # a name that no file can have
        pass
    raise ValueError(f"There is no suite {source!r}: it is no file, and the built-in suites are {', '.join(BUILT_IN)}.")


def _read(path: Path, source: str) -> Suite:
    digest = hashlib.sha256()
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise ValueError(f"{path} has {path.stat().st_size:,} bytes; a suite may have {LONGEST_FILE:,}.")
        with path.open("rb") as stream:
            items = tuple(_items(stream, path, digest))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    if not items:
        raise ValueError(f"{path} has no item; it needs one JSON object a line.")
    return graded(Suite(_name(path), items, source, digest.hexdigest()))


def _items(stream: BinaryIO, path: Path, digest: hashlib._Hash) -> Iterator[Item]:
    """Item by item; lines end with a line feed only, since a text may hold every other separator. Empty lines are left out."""
    seen: dict[str, int] = {}
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        digest.update(line)
        if number == 1:
            line = line.removeprefix(_BOM)
        try:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"the line has more than {LONGEST_LINE:,} bytes")
            if not line.strip():
                continue
            item = read_row(line, number)
            if item.id in seen:
                raise ValueError(f"the id {item.id!r} stands in line {seen[item.id]} already; each must be unique")
            if len(seen) == MOST_ITEMS:
                raise ValueError(f"a suite may have {MOST_ITEMS:,} items")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}.") from None
        seen[item.id] = number
        yield item


def _name(path: Path) -> str:
    """The file's name without its ending; of a question.jsonl, its folder's."""
    named = path.absolute().parent if path.name == QUESTIONS else path
    return named.stem if named is path else named.name or path.stem
