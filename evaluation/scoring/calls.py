"""Tool calls of a text: whether they are well-formed, and fit the tools that were offered.

Formats: ``<tool_call>`` blocks (Hermes, Qwen), else one JSON object or a list of them, the text or
its first fenced block. A call has a name, and arguments or parameters: an object, or its JSON text
as in OpenAI's API.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from evaluation.item import Tool
from evaluation.scoring.answer import after_reasoning
from evaluation.scoring.extraction import LONGEST, json_of

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def calls_fit(text: str, tools: Iterable[Tool]) -> bool:
    """Return whether the text has calls, each of a tool with its required arguments and no unknown
    one."""
    known, calls = {tool.name: tool for tool in tools}, calls_of(text)
    return bool(calls) and all(
        name in known
        and set(known[name].required) <= arguments.keys() <= set(known[name].arguments)
        for name, arguments in calls or ()
    )


def calls_of(text: str) -> list[tuple[str, Mapping[str, Any]]] | None:
    """Names and arguments; None where there is no call, or one that is not well-formed."""
    answer = after_reasoning(text[:LONGEST])
    blocks = [part.partition(_CLOSE) for part in answer.split(_OPEN)[1:]]
    if not all(closed for _, closed, _ in blocks):
        return None
    read = [json_of(block) for block, _, _ in blocks] or [json_of(answer)]
    values = [json.loads(each) if each else None for each in read]
    if not blocks and isinstance(values[0], list):
        values = values[0]
    calls = [_call(value) for value in values]
    return None if None in calls or not calls else [call for call in calls if call]


def _call(value: Any) -> tuple[str, Mapping[str, Any]] | None:
    match value:
        case {"function": dict(inner)}:
            return _call(inner)
        case {"name": str(name), "arguments": arguments} | {
            "name": str(name),
            "parameters": arguments,
        }:
            read = json_of(arguments) if isinstance(arguments, str) else json.dumps(arguments)
            call = json.loads(read) if read else None
            return (name, call) if isinstance(call, dict) else None
    return None
