"""Whether two texts give the same answer, where one can be found in both: JSON, code, a choice or a
number. No gradio."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from evaluation.scoring.answer import MARK, final_number

LONGEST = 20_000  # characters of a text that is read
_BLOCK = re.compile(r"```(\w*)\n(.*?)(?:```|\Z)", re.DOTALL)
_LETTER = re.compile(r"\banswer(?: is|:)?\s*\**\(?([A-J])\b")
_CHOICE = re.compile(r"\s*\(?[A-J][).:]")  # at the beginning of a line
_AMOUNT = re.compile(r"\bhow (?:many|much|old|far|long|tall)\b", re.IGNORECASE)
_SIGNS = frozenset("-+*/×÷=")
BROKEN = (ValueError, SyntaxError, RecursionError, MemoryError)


class TextAnswers(NamedTuple):
    """What was found in both texts; ``kind``: JSON, code, choice or number."""

    kind: str
    left: str
    right: str


def answers(prompt: str, left: str, right: str) -> TextAnswers | None:
    """Return both answers in one form; None where no answer of the same kind is found in both."""
    lines = prompt.split("\n")
    chooses = sum(_CHOICE.match(line) is not None for line in lines) > 1
    counts = MARK in left + right or bool(_AMOUNT.search(prompt)) or any(map(_calculates, lines))
    kinds: list[tuple[str, bool, Callable[[str], object]]] = [
        ("JSON", True, _json),
        ("code", True, _code),
        ("choice", chooses, _choice),
        ("number", counts, final_number),
    ]
    for kind, wanted, find in kinds:
        parts = [find(text[:LONGEST]) for text in (left, right)] if wanted else [None]
        if None not in parts:
            return TextAnswers(kind, *map(str, parts))
    return None


def _calculates(line: str) -> bool:
    """Return whether a sign of arithmetic stands between two digits, with anything beside it."""
    digits = [at for at, character in enumerate(line) if character.isdecimal()]
    return bool(digits) and not _SIGNS.isdisjoint(line[digits[0] : digits[-1]])


def _choice(text: str) -> str | None:
    """Return the letter that is called the answer, else the one with which the text begins."""
    named = _LETTER.findall(text)
    first = re.match(r"\s*\(?([A-J])(?:[).:]|\s*$)", text)
    return named[-1] if named else first[1] if first else None


def json_in(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or list that is the full text or its first block."""
    for part in (text, *(block for _, block in _BLOCK.findall(text)[:1])):
        try:
            value = json.loads(part)
        except BROKEN:
            continue
        if isinstance(value, dict | list):
            return value
    return None


def _json(text: str) -> str | None:
    value = json_in(text)
    return None if value is None else json.dumps(value, sort_keys=True)


def _code(text: str) -> str | None:
    """Return the first block of Python without its layout and comments."""
    block = next((code for name, code in _BLOCK.findall(text) if name in ("python", "py", "")), "")
    try:
        return ast.dump(ast.parse(block)) if block.strip() else None
    except BROKEN:
        return None
