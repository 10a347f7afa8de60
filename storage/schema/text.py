"""Encodings of arbitrary Python strings: a lossless one for databases and Parquet, one for
searching, one for display.

PostgreSQL rejects U+0000, and UTF-8 cannot encode lone surrogates; model output and prompts may
contain both. Such a character is written as ``␛`` (U+241B, "symbol for escape") and four
hexadecimal digits, and so is ``␛`` itself: NUL is ``␛0000``, U+D800 ``␛d800``, ``␛`` is ``␛241b``.
All other text is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

ESCAPE = "\u241b"
_UNSAFE = re.compile("[\x00\u241b\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LETTERS = str.maketrans("0123456789abcdef", "ABCDEFGHIJKLMNOP")
_ESCAPED = re.compile("\u241b([0-9a-f]{4})")
# Control characters except tab and newlines; surrogates.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CUT = re.compile("\u241b[0-9a-f]{0,3}$")


def encode(text: str) -> str:
    """``text`` without NUL and surrogates; inverse of ``decode``."""
    return _UNSAFE.sub(lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)


def decode(stored: str) -> str:
    """The string that ``encode`` was given. An escape cut off at the end (by an SQL ``substr``) is
    dropped."""
    if ESCAPE not in stored:
        return stored
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), _CUT.sub("", stored))


def folded(text: str) -> str:
    """For case-insensitive search: storable, without capitals except in escapes.

    NUL and surrogates are ``Y`` and four letters A–P; a text contains another exactly if its folded
    form does.
    """
    return _UNSTORABLE.sub(
        lambda match: "Y" + f"{ord(match[0]):04x}".translate(_LETTERS), text.casefold()
    )


def readable(text: str) -> str:
    """For tables and CSV: ``text`` with controls and surrogates as ``\\uXXXX``; tab, newlines stay.
    Not reversible."""
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
