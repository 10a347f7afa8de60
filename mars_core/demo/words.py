"""The words that the bundled pair has read."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def unknown_words(text: str) -> tuple[str, ...]:
    """List the words of ``text`` that no training text has."""
    return tuple(word for word in dict.fromkeys(WORD.findall(text)) if word.lower() not in _known())


@cache
def _known() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split())
