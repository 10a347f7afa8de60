"""The text of a message of a server, or of a part of one, with its tool calls as Hermes and Qwen write
them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_BEGIN, _ARGUMENTS, _END = '<tool_call>\n{"name": ', ', "arguments": ', "}\n</tool_call>\n"


def text_of(choice: Mapping[str, Any]) -> str:
    """Return the text of a completion, a chat message or a part of one, its reasoning first and its
    tool calls last, as a model writes it. The last call of a part is not closed."""
    if "text" in choice:
        return choice["text"] or ""
    message = choice.get("message") or choice.get("delta") or {}
    reasoning = (
        message.get("reasoning_content") or message.get("reasoning") or ""
    )  # some servers send both names
    calls = message.get("tool_calls") or ()
    text = f"{reasoning}{message.get('content') or ''}{_calls(calls)}"
    return closed(text, choice) if calls and choice.get("message") else text


def closed(text: str, choice: Mapping[str, Any]) -> str:
    """Return the text of an answer with its last tool call closed, unless the answer was cut."""
    if choice.get("finish_reason") == "length":
        return text
    return f"{text}{'{}' * text.endswith(_ARGUMENTS)}{_END}"


def _calls(calls: Iterable[Mapping[str, Any]]) -> str:
    text = ""
    for number, call in enumerate(calls):
        function = call.get("function") or {}
        if name := function.get("name"):
            earlier = _END if call.get("index", number) else ""
            text += f"{earlier}{_BEGIN}{json.dumps(name, ensure_ascii=False)}{_ARGUMENTS}"
        arguments = function.get("arguments") or ""
        text += arguments if isinstance(arguments, str) else json.dumps(arguments)
    return text
