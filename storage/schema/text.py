"""One lossless spelling of any Python string that every database and Parquet can hold, one to search, one to show. Knows no table.

PostgreSQL refuses U+0000, and UTF-8 cannot spell lone surrogates; model output and prompts may contain both. Such a
character is written as ``␛`` (U+241B, "symbol for escape") and four hexadecimal digits, and so is ``␛`` itself: NUL is
``␛0000``, U+D800 ``␛d800``, ``␛`` is ``␛241b``. Everything else, so all ordinary text, stays as it is.
"""

from __future__ import annotations

import re

ESCAPE = "\u241b"
_UNSAFE = re.compile("[\x00\u241b\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LETTERS = str.maketrans("0123456789abcdef", "ABCDEFGHIJKLMNOP")
_ESCAPED = re.compile("\u241b([0-9a-f]{4})")
# Controls but tab and newlines; surrogates.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CUT = re.compile("\u241b[0-9a-f]{0,3}$")


def encode(text: str) -> str:
    """``text`` without NUL and surrogates; ``decode`` gives it back."""
    return _UNSAFE.sub(lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)


def decode(stored: str) -> str:
    """The string that ``encode`` was given. An escape cut off at the end (by an SQL ``substr``) is dropped."""
    if ESCAPE not in stored:
        return stored
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), _CUT.sub("", stored))


def folded(text: str) -> str:
    """For searching without regard to case: storable, and in it a capital is never part of ordinary text.

    NUL and surrogates are ``Y`` and four letters A–P; so one text is in another exactly where its folded form is.
    """
    return _UNSTORABLE.sub(lambda match: "Y" + f"{ord(match[0]):04x}".translate(_LETTERS), text.casefold())


def readable(text: str) -> str:
    """For tables and CSV: ``text`` with controls and surrogates as ``\\uXXXX``; tab, newlines stay. Not reversible."""
    return _UNREADABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
