"""Reads a suite: a built-in one by its name, or a file with one JSON object a line (question.jsonl
of Spec-Bench, EAGLE, FastChat).

The field's files differ in their keys, so each key has the names that Spec-Bench, EAGLE, FastChat,
HumanEval, MBPP, GSM8K, MATH and Hugging Face exports of them use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from hashlib import file_digest
from pathlib import Path
from typing import Any

from evaluation.item import Item, Suite, Tool
from evaluation.scoring.names import CONTAINS_ALL, EXPECTED, FLEXIBLE, FOLLOWS, STRICT
from evaluation.scoring.schema import is_schema
from evaluation.suites.grading import union, with_metrics
from mars_core.text.files import read_json, read_lines

ARITHMETIC, STORIES = "demo_arithmetic", "demo_stories"  # held-out text of the bundled pair
BUILT_IN: Mapping[str, tuple[str, ...]] = {  # files beside this one, with their metrics
    ARITHMETIC: (STRICT, FLEXIBLE),
    STORIES: (CONTAINS_ALL,),
    "instructions": (FOLLOWS,),
    "instructions_fresh": (FOLLOWS,),  # for studies that confirm: no setting was chosen on them
    "tools": (EXPECTED,),
}
QUESTIONS = "question.jsonl"  # in a folder with the suite's name, as in EAGLE and Spec-Bench
MAX_LINE = 4 * 2**20  # bytes
MAX_FILE = 2**30  # bytes
MAX_ITEMS = 100_000
MAX_TURNS = 64
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


def read_suite(source: str, limit: int | None = None) -> Suite:
    """Read the suite of a path (a file, or a folder with question.jsonl) or a built-in name;
    ``limit``: its first items only.

    The metrics are selected from the full file, independent of ``limit``; see ``grading``.
    Raises ValueError, one sentence with the file, the line and the reason.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; it must be at least 1, or omitted.")
    suite = _built_in(source) if source in BUILT_IN else _read(_file(source), source)
    items = suite.items[:limit]
    # A mixed suite keeps the metrics that its first items use.
    return replace(
        suite, items=items, metrics=union(items) if union(suite.items) else suite.metrics
    )


@cache
def _built_in(name: str) -> Suite:
    items = tuple(_items(Path(__file__).with_name(f"{name}.jsonl")))
    return Suite(name, items, name, metrics=BUILT_IN[name])


def _file(source: str) -> Path:
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            path /= QUESTIONS
        if path.is_file():
            return path
    except (OSError, ValueError):  # not a valid file name
        pass
    built_in = ", ".join(BUILT_IN)
    raise ValueError(
        f"There is no suite {source!r}: it is not a file, and the built-in suites are {built_in}."
    )


def _read(path: Path, source: str) -> Suite:
    items = tuple(_items(path))
    if not items:
        raise ValueError(f"{path} has no item; it needs one JSON object a line.")
    with path.open("rb") as stream:
        sha256 = file_digest(stream, "sha256").hexdigest()
    return with_metrics(Suite(_name(path), items, source, sha256))


def _items(path: Path) -> Iterator[Item]:
    """Item by item. Empty lines are skipped."""
    line_of: dict[str, int] = {}
    for number, line in enumerate(read_lines(path, MAX_FILE, MAX_LINE), start=1):
        if not line.strip():
            continue
        try:
            item = _item(line, number)
            if item.id in line_of:
                raise ValueError(
                    f"the id {item.id!r} is in line {line_of[item.id]} already; each must be unique"
                )
            if len(line_of) == MAX_ITEMS:
                raise ValueError(f"a suite may have {MAX_ITEMS:,} items")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}.") from None
        line_of[item.id] = number
        yield item


def _name(path: Path) -> str:
    """Return the file's name without its ending; of a question.jsonl, its folder's."""
    named = path.absolute().parent if path.name == QUESTIONS else path
    return named.stem if named is path else named.name or path.stem


def _item(line: str, number: int) -> Item:
    """Read the item of line ``number`` (from 1), which is the default of its id. Raises ValueError
    without file and line."""
    row = _object(line)
    key, value = _first_field(row, _ID)
    name = _name_in(key, value) if key else str(number)
    if not name.strip():
        raise ValueError(f"{key} is an empty text; it must be a number or a text")
    category, template = (
        _name_in(*_first_field(row, (key,))).strip() for key in ("category", "template")
    )
    turns, references, tests = _turns(row), _references(row), _tests(row)
    return Item(
        *(name, turns, references, category, tests),
        tools=_tools(row),
        template=template,
        schema=_schema(row),
    )


def _object(line: str) -> dict[str, Any]:
    try:
        row = read_json(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: it is nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError(f"it must be one JSON object, not {_kind(row)}")
    return row


def _name_in(key: str, value: Any) -> str:
    if key and (isinstance(value, bool) or not isinstance(value, int | str)):
        raise ValueError(f"{key} is {_kind(value)}; it must be a number or a text")
    return _text(key, str(value)) if key else ""


def _turns(row: Mapping[str, Any]) -> tuple[str, ...]:
    key, value = _first_field(row, _TURNS)
    if not key:
        raise ValueError(
            "there are no turns; a line needs turns (a list of texts) or prompt (a text)"
        )
    turns = [value] if isinstance(value, str) else value
    if not isinstance(turns, list) or not 1 <= len(turns) <= MAX_TURNS:
        raise ValueError(
            f"{key} is {_kind(value)}; it must be a text or a list of 1 to {MAX_TURNS} texts"
        )
    for index, turn in enumerate(turns):
        if not isinstance(turn, str) or not turn.strip():
            raise ValueError(
                f"{key}[{index}] is {_kind(turn)}; it must be a text that is not empty"
            )
    if (
        key == "instruction" and isinstance(row.get("input"), str) and row["input"].strip()
    ):  # rows of Alpaca
        turns = [f"{turns[0]}\n\n{row['input']}", *turns[1:]]
    return tuple(_text(key, turn) for turn in turns)


def _references(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the references of the row, including empty ones."""
    key, value = _first_field(row, _REFERENCE)
    if isinstance(value, list):
        return tuple(_reference(f"{key}[{index}]", item) for index, item in enumerate(value))
    return (_reference(key, value),) if key else ()


def _reference(name: str, value: Any) -> str:
    if isinstance(value, str):
        return _text(name, value)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {_kind(value)}; it must be a text or a number")
    return str(value)


def _tests(row: Mapping[str, Any]) -> str:
    """Return the row's tests; HumanEval's ``check`` is called with the entry point."""
    key, value = _first_field(row, _TESTS)
    lines = [value or ""] if isinstance(value, str | None) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise ValueError(
            f"{key} is {_kind(value)}; it must be Python, as a text or a list of lines"
        )
    tests = _text(key, "\n".join(lines))
    entry = row.get("entry_point")
    if entry is None or "def check(" not in tests:
        return tests
    if not isinstance(entry, str) or not entry.isidentifier():
        raise ValueError(f"entry_point is {_kind(entry)}; it must be the name of a function")
    return f"{tests}\n\ncheck({entry})\n"


def _tools(row: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Read tools as in OpenAI's API and in Hermes' and BFCL's files: functions with a JSON
    schema."""
    tools = row.get("tools") or []
    try:
        return tuple(map(_tool, json.loads(tools) if isinstance(tools, str) else tools))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise ValueError(
            f"tools is {_kind(tools)}; it must be a list of functions, each with name and "
            "parameters (a JSON schema)"
        ) from None


def _tool(value: dict[str, Any]) -> Tool:
    function = value.get("function") or value
    schema = function.get("parameters") or {}
    required, arguments = schema.get("required") or [], schema.get("properties") or {}
    if not is_schema(schema):
        raise ValueError("not a schema")
    texts = [_text("tools", each) for each in (function["name"], *arguments, *required)]
    written = _text("tools", json.dumps(function, ensure_ascii=False))
    return Tool(texts[0], tuple(texts[1 : len(arguments) + 1]), tuple(required), written)


def _schema(row: Mapping[str, Any]) -> str:
    schema = row.get("schema")
    if schema is None:
        return ""
    if not isinstance(schema, dict) or not is_schema(schema):
        raise ValueError(f"schema is {_kind(schema)}; it must be a JSON schema")
    return _text("schema", json.dumps(schema, ensure_ascii=False))


def _first_field(row: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    """Return the first of the names that the row has with a value, and the value; an empty name and
    None if there is none."""
    return next(((name, row[name]) for name in names if row.get(name) is not None), ("", None))


def _text(name: str, text: str) -> str:
    """Text that can be encoded: a lone surrogate can be neither tokenized nor stored."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has a lone surrogate at character {error.start + 1}") from None
    return text


def _kind(value: Any) -> str:
    """Return a short description of a value."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "an empty text" if not value.strip() else f"the text {value[:40]!r}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else str(value).lower()[:40]
