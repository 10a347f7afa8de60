"""What people write on a comparison: its name, tags and comment, and how long each may be. Knows no tables."""

from __future__ import annotations

from collections.abc import Sequence

from storage.errors import StorageError
from storage.text import folded

NAME_LENGTH = 200  # characters, here and below
TAG_LENGTH = 40
MOST_TAGS = 20
COMMENT_LENGTH = 10_000
_BETWEEN = "Z"  # no folded text that is searched for holds it alone


def checked_name(name: str) -> str:
    """``name`` without the space around it. Raises StorageError where it is too long."""
    return _checked("name", name.strip(), NAME_LENGTH)


def checked_tags(tags: Sequence[str]) -> list[str]:
    """Stripped, each once, sorted; empty ones are left out. Raises StorageError where one, or their number, is too great."""
    found = sorted({tag.strip() for tag in tags} - {""})
    if len(found) > MOST_TAGS:
        raise StorageError(f"A comparison may have {MOST_TAGS} tags at most, not {len(found)}.")
    return [_checked("tag", tag, TAG_LENGTH) for tag in found]


def checked_comment(comment: str) -> str:
    """Raises StorageError where it is too long."""
    return _checked("comment", comment, COMMENT_LENGTH)


def haystack(prompt: str, name: str, comment: str, tags: Sequence[str]) -> str:
    """What a search looks into: the texts folded; no text is found across the border of two."""
    return _BETWEEN.join(map(folded, (prompt, name, comment, *tags)))


def _checked(noun: str, text: str, most: int) -> str:
    if len(text) > most:
        raise StorageError(f"A {noun} may have {most:,} characters at most, not {len(text):,}.")
    return text
