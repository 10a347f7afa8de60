"""One line of a question.jsonl file as an Item: what is accepted, and one sentence for what is not. Knows no metric.

The field's files differ in their keys, so each key has the names under which Spec-Bench, EAGLE, FastChat, HumanEval, MBPP, GSM8K,
MATH and HF exports of them keep it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from evaluation.suites.item import Item

_ID = ("question_id", "task_id", "unique_id", "id", "qid")
_TURNS = ("turns", "prompt", "question", "problem", "instruction", "text")
_REFERENCE = (
    "reference",
    "references",
    "answer",
    "answers",
    "target",
    "solution",
    "canonical_solution",
    "output",
    "code",
)
_TESTS = ("tests", "test", "test_list")
MOST_TURNS = 64


def read_row(line: bytes, number: int) -> Item:
    """The item of line ``number`` (from 1), whose id is that number where the line has none. Raises ValueError without the place."""
    row = _object(line)
    return Item(
        id=_id(row, number),
        turns=_turns(row),
        references=_references(row),
        category=_category(row),
        tests=_tests(row),
    )


def _object(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("no JSON that can be read: it is nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError(f"one JSON object is wanted, not {_kind(row)}")
    return row


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _id(row: Mapping[str, Any], number: int) -> str:
    key = _key(row, _ID)
    if key is None:
        return str(number)
    if isinstance(row[key], bool) or not isinstance(row[key], int | str) or not str(row[key]).strip():
        raise ValueError(f"{key} is {_kind(row[key])}; it must be a number or a text")
    return _text(key, str(row[key]))


def _turns(row: Mapping[str, Any]) -> tuple[str, ...]:
    key = _key(row, _TURNS)
    if key is None:
        raise ValueError("there are no turns; a line needs turns (a list of texts) or prompt (a text)")
    given = row[key]
    turns = [given] if isinstance(given, str) else given
    if not isinstance(turns, list) or not 1 <= len(turns) <= MOST_TURNS:
        raise ValueError(f"{key} is {_kind(given)}; it must be a text or a list of 1 to {MOST_TURNS} texts")
    for place, turn in enumerate(turns):
        if not isinstance(turn, str) or not turn.strip():
            raise ValueError(f"{key}[{place}] is {_kind(turn)}; it must be a text that is not empty")
    if key == "instruction" and isinstance(row.get("input"), str) and row["input"].strip():  # Alpaca's own rows
        turns = [f"{turns[0]}\n\n{row['input']}", *turns[1:]]
    return tuple(_text(key, turn) for turn in turns)


def _references(row: Mapping[str, Any]) -> tuple[str, ...]:
    """As they stand there, empty ones too."""
    key = _key(row, _REFERENCE)
    if key is None:
        return ()
    given = row[key]
    if not isinstance(given, list):
        return (_reference(key, given),)
    return tuple(_reference(f"{key}[{place}]", value) for place, value in enumerate(given))


def _reference(name: str, value: Any) -> str:
    if isinstance(value, str):
        return _text(name, value)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {_kind(value)}; it must be a text or a number")
    return str(value)


def _category(row: Mapping[str, Any]) -> str:
    value = row.get("category")
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"category is {_kind(value)}; it must be a text")
    return _text("category", str(value)).strip()


def _tests(row: Mapping[str, Any]) -> str:
    """The row's own tests; HumanEval's ``check`` is called with the entry point."""
    key = _key(row, _TESTS)
    if key is None:
        return ""
    given = row[key]
    lines = [given] if isinstance(given, str) else given
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise ValueError(f"{key} is {_kind(given)}; it must be Python, as a text or a list of lines")
    tests = _text(key, "\n".join(lines))
    entry = row.get("entry_point")
    if entry is None or "def check(" not in tests:
        return tests
    if not isinstance(entry, str) or not entry.isidentifier():
        raise ValueError(f"entry_point is {_kind(entry)}; it must be the name of a function")
    return f"{tests}\n\ncheck({entry})\n"


def _key(row: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of the names that the row has with a value."""
    return next((name for name in names if row.get(name) is not None), None)


def _text(name: str, text: str) -> str:
    """Text that can be encoded: half a surrogate pair can be neither tokenized nor stored."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has half a surrogate pair at character {error.start + 1}") from None
    return text


def _kind(value: Any) -> str:
    """A value for people, short."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "an empty text" if not value.strip() else f"the text {value[:40]!r}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else str(value).lower()[:40]
