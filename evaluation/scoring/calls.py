"""Tool calls of a text: whether they are well-formed, fit the tools that were offered, and are the
right ones.

Formats: ``<tool_call>`` blocks (Hermes, Qwen), else Llama's ``[name(argument="value")]``, one JSON
object or a list of them: the text or its first fenced block, after Llama's ``<|python_tag|>`` or
Mistral's ``[TOOL_CALLS]``. A call has a name, and arguments or parameters: an object, or its JSON
text as in OpenAI's API.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.item import Tool
from evaluation.scoring.answer import after_reasoning
from evaluation.scoring.extraction import BROKEN, LONGEST, json_in
from evaluation.scoring.schema import fits, same

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_MARK = re.compile(r"<\|python_tag\|>|\[TOOL_CALLS\]")
Call = tuple[str, Mapping[str, Any]]  # name and arguments


def calls_fit(text: str, tools: Iterable[Tool]) -> bool:
    """Return whether the text has calls, each of a tool with its required arguments, no unknown one
    and values that fit its schema."""
    known, calls = {tool.name: tool for tool in tools}, calls_of(text)
    return bool(calls) and all(
        name in known
        and set(known[name].required) <= arguments.keys() <= set(known[name].arguments)
        and fits(dict(arguments), known[name].schema)
        for name, arguments in calls or ()
    )


def is_expected(text: str, reference: str) -> bool:
    """Return whether the answer is the value of ``reference``, in JSON: calls in any order, or
    another object or list."""
    try:
        expected = json.loads(reference)
    except BROKEN:
        return False
    right = _read(expected if isinstance(expected, list) else [])
    if right is None:
        actual = json_in(after_reasoning(text[:LONGEST]))
        return actual is not None and same(actual, expected)
    calls = calls_of(text) or []
    return len(calls) == len(right) and all(
        any(all(map(same, call, each)) for each in calls) for call in right
    )


def calls_of(text: str) -> list[Call] | None:
    """Names and arguments; None where there is no call, or one that is not well-formed."""
    answer = after_reasoning(text[:LONGEST])
    blocks = [part.partition(_CLOSE) for part in answer.split(_OPEN)[1:]]
    if not all(closed for _, closed, _ in blocks):
        return None
    if blocks:
        return _read([json_in(block) for block, _, _ in blocks])
    answer = _MARK.sub("", answer, count=1)
    value = json_in(answer)
    if value is None:
        return _of_python(answer)
    return _read(value if isinstance(value, list) else [value])


def _read(values: Sequence[Any]) -> list[Call] | None:
    calls = [_call(value) for value in values]
    return None if None in calls or not calls else [call for call in calls if call]


def _call(value: Any) -> Call | None:
    match value:
        case {"function": dict(inner)}:
            return _call(inner)
        case {"name": str(name), "arguments": arguments} | {
            "name": str(name),
            "parameters": arguments,
        }:
            call = json_in(arguments) if isinstance(arguments, str) else arguments
            return (name, call) if isinstance(call, dict) else None
    return None


def _of_python(text: str) -> list[Call] | None:
    """Return calls that are written as a list of Python calls with literal arguments."""
    try:
        body = ast.parse(text.strip(), mode="eval").body
        if not isinstance(body, ast.List):
            return None
        return [_python_call(each) for each in body.elts] or None
    except BROKEN:
        return None


def _python_call(node: ast.expr) -> Call:
    """Raises ValueError for what is not one."""
    match node:
        case ast.Call(ast.Name(name), [], keywords):
            return name, {each.arg or "": ast.literal_eval(each.value) for each in keywords}
    raise ValueError("not a call")
