"""An exception as plain values for a log: types, frames, and messages only where they may be told. Knows no log.

A message may quote a prompt, and SQLAlchemy's repeats the statement with all that was stored; a source line, or a local value,
could hold one too. So a trail holds file, line and function, and of a message the first line at most.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONGEST_CHAIN = 5  # exceptions
LONGEST_STACK = 30  # frames, the innermost
LONGEST_MESSAGE = 300  # characters
_MARKS = ("site-packages/", "dist-packages/", f"{ROOT.as_posix()}/")


class Link(NamedTuple):
    """One exception of a chain. ``frames``: ``file:line function``, the innermost last. ``message`` is empty where it is not told."""

    type: str
    message: str
    frames: tuple[str, ...]


def trail(error: BaseException | None, *, messages: bool) -> tuple[Link, ...]:
    """``error`` and what it came of, the latest first. Raises nothing, whatever the exception does."""
    return tuple(_link(each, messages) for each in _chain(error))


def readable(text: str, most: int = 2000) -> str:
    """``text`` on one line, without anything that a terminal would obey, ``most`` characters at most."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text[:most])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen and len(seen) < LONGEST_CHAIN:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _link(error: BaseException, messages: bool) -> Link:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    frames = [
        readable(f"{_short(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}", LONGEST_MESSAGE)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return Link(name, _message(error) if messages else "", tuple(frames[-LONGEST_STACK:]))


def _message(error: BaseException) -> str:
    try:
        first, *_ = str(error).strip().splitlines() or [""]
    except Exception:  # noqa: BLE001 - an exception that cannot be told must not break the log
        return ""
    return readable(first, LONGEST_MESSAGE)


def _short(file: str) -> str:
    """From the root of the project, or of the installed package: the same on every machine."""
    for mark in _MARKS:
        if mark in file:
            return file.rpartition(mark)[2]
    return file
