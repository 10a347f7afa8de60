"""What a choice of a server's answer says, or a part of one: its text, with tool calls as Hermes and
Qwen write them, its token ids, and what is known of each token."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

NONE, CERTAIN = -9999.0, -10.0  # log probabilities
ROUNDING = 1e-3  # that a log probability may be above 0
_DISPLAYED_ID = re.compile(r"token_id:(\d{1,10})", re.ASCII)
_BEGIN, _ARGUMENTS, _END = '<tool_call>\n{"name": ', ', "arguments": ', "}\n</tool_call>\n"

TokenKey = int | bytes


class Position(NamedTuple):
    """One token of an answer, or one of the most likely ones (``top``, in order of probability,
    with theirs; empty in these).

    ``token``: as the server displays it. ``key``: what identifies it, its id or else its bytes;
    None where the server reports neither, because several tokens may share one display.
    ``logprob``: nats; nan where it is not known.
    """

    token: str
    logprob: float
    top: tuple[Position, ...] = ()
    key: TokenKey | None = None


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


def token_ids(values: Any) -> tuple[int, ...]:
    """Return token ids, if any. Raises TypeError or ValueError for anything else."""
    ids = tuple(values or ())
    if any(type(value) is not int or not 0 <= value < 2**31 for value in ids):
        raise ValueError("A token id is not a whole number.")
    return ids


def positions(logprobs: Any) -> tuple[Position, ...]:
    """Return the tokens of a choice, in the form of chats (``content``) or of completions
    (``tokens``, ``top_logprobs``). Raises LookupError, TypeError, ValueError or AttributeError for
    values of other types."""
    if not logprobs:
        return ()
    rows = logprobs["content"] if "content" in logprobs else _as_in_chats(logprobs)
    return tuple(map(_position, rows or ()))


def _as_in_chats(logprobs: Mapping[str, Any]) -> list[dict[str, Any]]:
    tokens = logprobs["tokens"]
    tops = logprobs.get("top_logprobs") or [None] * len(tokens)
    return [
        {
            "token": token,
            "logprob": logprob,
            "top_logprobs": [{"token": each, "logprob": p} for each, p in (top or {}).items()],
        }
        for token, logprob, top in zip(tokens, logprobs["token_logprobs"], tops, strict=True)
    ]


def _position(row: Mapping[str, Any]) -> Position:
    """Read a token with its likely alternatives. Not every log probability is one: llama.cpp writes
    0 for accepted drafts, vLLM −9999 for −∞. 0 is believed where others are in the list and have
    next to no probability."""
    chosen = _listed(row)
    listed = [
        each for each in map(_listed, row.get("top_logprobs") or ()) if each.logprob > -math.inf
    ]
    top = tuple(sorted(listed, key=lambda each: -each.logprob))
    certain = bool(top[1:]) and top[1].logprob < CERTAIN
    if chosen.logprob <= NONE or (chosen.logprob == 0 and not certain):
        chosen = chosen._replace(logprob=math.nan)
    return chosen._replace(top=top)


def _listed(row: Mapping[str, Any]) -> Position:
    """Read a token alone. vLLM can display an id instead of a text (return_tokens_as_token_ids)."""
    token, key, content = str(row["token"]), row.get("id"), row.get("bytes")
    if displayed := _DISPLAYED_ID.fullmatch(token):
        key = int(displayed[1])
    if type(key) is not int or not 0 <= key < 2**31:
        key = bytes(content) if content and isinstance(content, list) else None
    logprob = math.nan if row["logprob"] is None else float(row["logprob"])
    return Position(token, logprob if logprob <= ROUNDING else math.nan, key=key)
