"""What a prompt asks for beside its text: functions that may be called, and the form of the answer,
as the fields ``tools`` and ``response_format`` of OpenAI's interface have them."""

from __future__ import annotations

import json
from typing import Any

from mars_core.text.files import read_json

LONGEST = 200_000  # characters
_FIELDS = {"tools": list, "response_format": dict}
_STATED = """\
You may call these functions:
{functions}

Answer with a call and nothing else, in this form:
<tool_call>
{{"name": <name of the function>, "arguments": <object with its arguments>}}
</tool_call>"""


def structure_of(text: str) -> dict[str, Any]:
    """Return the fields of ``PromptConfig.structure``. Raises ValueError."""
    if not text:
        return {}
    try:
        fields = read_json(text) if len(text) <= LONGEST else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or not all(
        isinstance(value, _FIELDS.get(name, ())) for name, value in fields.items()
    ):
        raise ValueError(
            f"structure is {text[:40]!r}; it must be a JSON object of at most {LONGEST:,} characters "
            "with tools (a list), response_format (an object), or both."
        )
    return fields


def stated(tools: list[Any]) -> str:
    """Return the text that offers functions to a model whose template has no place for them."""
    functions = (json.dumps(each.get("function", each), ensure_ascii=False) for each in tools)
    return _STATED.format(functions="\n".join(functions))
