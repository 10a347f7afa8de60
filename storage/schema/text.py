"""Texts as they are stored, searched and displayed.

PostgreSQL rejects U+0000, and UTF-8 cannot encode lone surrogates; model output and prompts may
contain both. Each is replaced by U+FFFD when it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Control characters except tab and newlines; surrogates.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def storable(text: str) -> str:
    """Return ``text``, of the same length, with U+FFFD for NUL and surrogates."""
    return _UNSTORABLE.sub("\ufffd", text)


def folded(text: str) -> str:
    """Return ``text`` for case-insensitive search: storable, without capitals."""
    return storable(text).casefold()


def readable(text: str) -> str:
    """Return, for tables and CSV, ``text`` with controls and surrogates as ``\\uXXXX``; tab,
    newlines stay. Not reversible."""
    return _UNREADABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def mapped(
    value: Any, text: Callable[[str], str], other: Callable[[Any], Any] = lambda value: value
) -> Any:
    """Nested lists and mappings, with ``text`` applied to every string and key and ``other`` to
    every other value."""
    match value:
        case str():
            return text(value)
        case Mapping():
            return {text(key): mapped(item, text, other) for key, item in value.items()}
        case list() | tuple():
            return [mapped(item, text, other) for item in value]
    return other(value)
