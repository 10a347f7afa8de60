"""Tests whether a text follows an instruction that a program can decide, as IFEval's are.

An instruction is written ``NAME: VALUE``, several values separated by commas: ``words: 12``,
``includes: fox, river``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from evaluation.scoring.answer import contains
from evaluation.scoring.extraction import json_in

_NAMED = re.compile(r"([a-z]+): *(\S.*)", re.DOTALL)
_POINT = re.compile(r"^ *(?:[-*•]|\d+[.)]) +\S", re.MULTILINE)


def is_instruction(reference: str) -> bool:
    """Return whether the reference is an instruction with a valid value."""
    match = _NAMED.fullmatch(reference.strip())
    if not match or match[1] not in INSTRUCTIONS:
        return False
    return re.fullmatch(_VALUES.get(match[1], ".+"), match[2], re.DOTALL) is not None


def follows(text: str, reference: str) -> bool:
    """Return whether ``text`` follows an instruction; a reference that is none must occur in it."""
    if not is_instruction(reference):
        return contains(text, reference)
    name, _, value = reference.strip().partition(":")
    return INSTRUCTIONS[name](text.strip(), value.strip())


def _items(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


def _has_keys(text: str, value: str) -> bool:
    """Return whether the text, or the first fenced block in it, is a JSON object with these keys
    only."""
    written = json_in(text)
    return isinstance(written, dict) and sorted(written) == sorted(_items(value))


INSTRUCTIONS: dict[str, Callable[[str, str], bool]] = {
    # one of the values and nothing else, case and quotes ignored
    "is": lambda text, value: text.strip(" \n.!\"'*").casefold() in _items(value.casefold()),
    "includes": lambda text, value: all(contains(text, each) for each in _items(value)),
    "excludes": lambda text, value: not any(contains(text, each) for each in _items(value)),
    "begins": lambda text, value: text.casefold().startswith(value.casefold()),
    "ends": lambda text, value: text.casefold().endswith(value.casefold()),
    "words": lambda text, value: 0 < len(text.split()) <= int(value),  # at most
    "points": lambda text, value: len(_POINT.findall(text)) == int(value),  # of a list
    "case": lambda text, value: text.islower() if value == "lower" else text.isupper(),
    "keys": _has_keys,
}
_VALUES = {"words": r"\d{1,4}", "points": r"\d{1,4}", "case": "lower|upper"}  # else any text
