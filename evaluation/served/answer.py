"""The answer of a server to one request, read from its server-sent events."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import httpx

from evaluation.served.choice import Position, TokenKey, closed, positions, text_of, token_ids

MAX_BYTES = 16 * 2**20  # of one answer
MAX_S = 1800.0  # of one answer
_KNOWN = frozenset(("id", "object", "created", "model", "choices", "usage"))
_KNOWN_OF_CHOICE = frozenset(
    (
        "index",
        "text",
        "delta",
        "message",
        "logprobs",
        "finish_reason",
        "token_ids",
        "prompt_token_ids",
    )
)


_Item = TypeVar("_Item")


class Broken(Exception):
    """An answer that ended too early, which may succeed at the next try; the message continues "The
    server …"."""


class Part(NamedTuple):
    """What one event of an answer adds: how many tokens (1 without ids), text, and what is known of
    its tokens; ``at_s``: seconds from sending the request."""

    tokens: int = 0
    text: str = ""
    positions: tuple[Position, ...] = ()
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One completed answer. None: the server did not report it, or not for as many tokens as it
    counted. llama.cpp, for example, has one log probability for all tokens of a character, and in a
    stream none for accepted drafts. ``extra``: all other fields of the server, the last value of
    each; ``parts``: as they came.

    ``ttft_s``: seconds from sending the request to the first token; ``wall_s``: to the end of the
    answer.
    """

    text: str
    finish_reason: str
    token_ids: tuple[int, ...] | None = None
    prompt_ids: tuple[int, ...] | None = None
    logprobs: tuple[Position, ...] | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    ttft_s: float = math.nan
    wall_s: float = math.nan

    @property
    def names(self) -> tuple[TokenKey, ...] | None:
        """What identifies each token; None where the server does not identify every one."""
        keys: Sequence[TokenKey | None] = self.token_ids or [
            each.key for each in self.logprobs or ()
        ]
        known = tuple(key for key in keys if key is not None)
        return known if known and len(known) == len(keys) else None


def read_bytes(answer: httpx.Response, started: float) -> Iterator[bytes]:
    """Read the body, decompressed. Raises ValueError for one that is too long and Broken for one
    that takes too long."""
    size = 0
    for data in answer.iter_bytes():
        if (size := size + len(data)) > MAX_BYTES:
            raise ValueError("The answer is too long.")
        if time.perf_counter() - started > MAX_S:
            raise Broken(f"did not finish its answer within {MAX_S:,.0f} seconds")
        yield data


def read_answer(answer: httpx.Response, started: float) -> Generator[Part, None, Answer]:
    """Yields what each event of a stream adds, or an answer in one piece; returns the answer.

    Raises Broken where it ended without a finish reason or with an error, and ValueError,
    LookupError, TypeError or AttributeError where it is not a completion.
    """
    events: list[Mapping[str, Any]] = []
    parts: list[Part] = []
    for event in _events(answer, started):
        events.append(event)
        for choice in (event.get("choices") or ())[:1]:
            if part := part_of(choice):
                parts.append(part._replace(at_s=time.perf_counter() - started))
                yield parts[-1]
    wall_s = time.perf_counter() - started
    ttft_s = parts[0].at_s if parts else wall_s
    return replace(answer_of(assembled(events)), parts=tuple(parts), ttft_s=ttft_s, wall_s=wall_s)


def part_of(choice: Mapping[str, Any]) -> Part | None:
    """Return what a choice of an event adds, without its time; None for nothing. Raises as
    ``read_answer``."""
    text, new = text_of(choice), token_ids(choice.get("token_ids"))
    return Part(len(new) or 1, text, positions(choice.get("logprobs"))) if new or text else None


def answer_of(row: Mapping[str, Any]) -> Answer:
    """Return the first answer of ``assembled``, without its times. Raises as ``read_answer``."""
    choice = (row.get("choices") or [{}])[0]
    if not choice.get("finish_reason"):
        raise Broken("ended its answer without a finish reason")
    ids, usage = choice["token_ids"], dict(row.get("usage", {}))
    logprobs = positions(choice.get("logprobs"))
    tokens = usage.get("completion_tokens") or len(ids or logprobs)
    return Answer(
        text=choice["text"],
        finish_reason=str(choice["finish_reason"]),
        token_ids=_as_many(tokens, ids),
        prompt_ids=token_ids(choice.get("prompt_token_ids") or row.get("prompt_token_ids")) or None,
        logprobs=_as_many(tokens, logprobs),
        usage=usage,
        extra=_without(row, _KNOWN) | _without(choice, _KNOWN_OF_CHOICE),
    )


def assembled(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an answer in one piece from the events of its stream: texts, token ids and log
    probabilities of each choice joined, of every other field the last value. Raises as
    ``read_answer``."""
    row: dict[str, Any] = {}
    choices: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        if "error" in event and not event.get("choices"):
            error = event["error"]
            message = error.get("message") if isinstance(error, dict) else error
            raise Broken(f"ended its answer with an error: {message}")
        row |= _without(event, ("choices",))
        for choice in event.get("choices") or ():
            choices[choice.get("index", 0)].append(choice)
    return row | ({"choices": [*map(_joined, choices.values())]} if choices else {})


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one choice from what the events say of it."""
    whole: dict[str, Any] = {}
    logprobs: defaultdict[str, list[Any]] = defaultdict(list)
    for part in parts:
        whole |= _without(part, ("delta", "message", "logprobs"))
        for name, values in (part.get("logprobs") or {}).items():
            if isinstance(values, list):
                logprobs[name] += values
    text = "".join(map(text_of, parts))
    if any((part.get("delta") or {}).get("tool_calls") for part in parts):
        text = closed(text, whole)
    ids = [id_ for part in parts for id_ in token_ids(part.get("token_ids"))]
    return whole | {"text": text, "token_ids": ids, "logprobs": logprobs or None}


def _without(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the other fields that have a value."""
    return {
        name: value for name, value in fields.items() if name not in names and value is not None
    }


def _events(answer: httpx.Response, started: float) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of the events, or the only one. Lines end with LF only: JSON may
    contain U+2028 and U+0085 as they are."""
    if "text/event-stream" not in answer.headers.get("content-type", ""):
        yield dict(json.loads(b"".join(read_bytes(answer, started))).items())
        return
    rest = b""
    for data in read_bytes(answer, started):
        *lines, rest = (rest + data).split(b"\n")
        yield from filter(None, (read_event(line.decode()) for line in lines))


def read_event(line: str) -> dict[str, Any] | None:
    """Return the JSON object of a line of a stream; None where there is none. Raises ValueError or
    AttributeError."""
    content = line.removeprefix("data:").strip()
    if not line.startswith("data:") or content in ("", "null", "[DONE]"):
        return None
    return dict(json.loads(content).items())


def _as_many(tokens: Any, items: Sequence[_Item]) -> tuple[_Item, ...] | None:
    return tuple(items) if items and len(items) == tokens else None
