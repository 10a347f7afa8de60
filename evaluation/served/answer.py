"""The answer of a server to one request, read from its server-sent events."""

from __future__ import annotations

import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import httpx

from evaluation.served.message import closed, text_of

MAX_BYTES = 16 * 2**20  # of one answer
MAX_S = 1800.0  # of one answer
NONE, CERTAIN = -9999.0, -10.0  # log probabilities
ROUNDING = 1e-3  # that a log probability may be above 0
_DISPLAYED_ID = re.compile(r"token_id:(\d{1,10})", re.ASCII)
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


TokenKey = int | bytes
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
    positions, new = _positions(choice.get("logprobs")), _token_ids(choice.get("token_ids"))
    text = text_of(choice)
    return Part(len(new) or 1, text, tuple(positions)) if new or text else None


def answer_of(row: Mapping[str, Any]) -> Answer:
    """Return the first answer of ``assembled``, without its times. Raises as ``read_answer``."""
    choice = (row.get("choices") or [{}])[0]
    if not choice.get("finish_reason"):
        raise Broken("ended its answer without a finish reason")
    ids, usage = choice["token_ids"], dict(row.get("usage", {}))
    logprobs = _positions(choice.get("logprobs"))
    tokens = usage.get("completion_tokens") or len(ids or logprobs)
    return Answer(
        text=choice["text"],
        finish_reason=str(choice["finish_reason"]),
        token_ids=_as_many(tokens, ids),
        prompt_ids=_token_ids(choice.get("prompt_token_ids") or row.get("prompt_token_ids"))
        or None,
        logprobs=_as_many(tokens, logprobs),
        usage=usage,
        extra=_without(row, _KNOWN) | _without(choice, _KNOWN_OF_CHOICE),
    )


def assembled(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an answer in one piece from the events of its stream: texts, token ids and log
    probabilities of each choice joined, of every other field the last value. Raises as
    ``read_answer``."""
    row: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    texts: defaultdict[int, list[str]] = defaultdict(list)
    ids: defaultdict[int, list[int]] = defaultdict(list)
    logprobs: defaultdict[int, dict[str, list[Any]]] = defaultdict(dict)
    calling: set[int] = set()
    for event in events:
        if "error" in event and not event.get("choices"):
            error = event["error"]
            message = error.get("message") if isinstance(error, dict) else error
            raise Broken(f"ended its answer with an error: {message}")
        row |= _without(event, ("choices",))
        for choice in event.get("choices") or ():
            index = choice.get("index", 0)
            choices.setdefault(index, {}).update(_without(choice, ("delta", "message", "logprobs")))
            texts[index].append(text_of(choice))
            if (choice.get("delta") or {}).get("tool_calls"):
                calling.add(index)
            ids[index] += _token_ids(choice.get("token_ids"))
            for name, values in (choice.get("logprobs") or {}).items():
                if isinstance(values, list):
                    logprobs[index].setdefault(name, []).extend(values)
    complete = [
        choice
        | {
            "text": closed(text, choice) if index in calling else text,
            "token_ids": ids[index],
            "logprobs": logprobs[index] or None,
        }
        for index, choice in choices.items()
        for text in ["".join(texts[index])]
    ]
    return row | ({"choices": complete} if complete else {})


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


def _as_many(tokens: Any, items: list[_Item]) -> tuple[_Item, ...] | None:
    return tuple(items) if items and len(items) == tokens else None


def _token_ids(values: Any) -> tuple[int, ...]:
    """Token ids, if any. Raises TypeError or ValueError for anything else."""
    values = () if values is None else values
    if any(type(value) is not int or not 0 <= value < 2**31 for value in values):
        raise ValueError("A token id is not a whole number.")
    return tuple(values)


def _positions(logprobs: Any) -> list[Position]:
    """Return the tokens of an event, in the form of chats (``content``) or of completions
    (``tokens``, ``top_logprobs``)."""
    if not logprobs:
        return []
    if "content" in logprobs:
        return [
            _position(each, each.get("top_logprobs") or ()) for each in logprobs["content"] or ()
        ]
    tops = logprobs.get("top_logprobs") or [None] * len(logprobs["tokens"])
    rows = zip(logprobs["tokens"], logprobs["token_logprobs"], tops, strict=True)
    return [
        _position(_row(*row), [_row(*pair) for pair in (top or {}).items()]) for *row, top in rows
    ]


def _row(token: Any, logprob: Any) -> dict[str, Any]:
    return {"token": token, "logprob": logprob}


def _position(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Position:
    """Raises LookupError, TypeError or ValueError for values of other types.

    Not every log probability is one: llama.cpp writes 0 for accepted drafts, vLLM −9999 for −∞. 0
    is believed where others are in the list and have next to no probability.
    """
    chosen, top = (
        _read_position(row),
        sorted(
            (each for each in map(_read_position, rows) if math.isfinite(each.logprob)),
            key=lambda each: -each.logprob,
        ),
    )
    certain = bool(top[1:]) and top[1].logprob < CERTAIN
    missing = chosen.logprob <= NONE or (chosen.logprob == 0 and not certain)
    return chosen._replace(logprob=math.nan if missing else chosen.logprob, top=tuple(top))


def _read_position(row: Mapping[str, Any]) -> Position:
    """vLLM can display an id instead of a text (return_tokens_as_token_ids)."""
    token, id_, content = str(row["token"]), row.get("id"), row.get("bytes")
    if displayed := _DISPLAYED_ID.fullmatch(token):
        id_ = int(displayed[1])
    key = (
        id_
        if type(id_) is int and 0 <= id_ < 2**31
        else bytes(content)
        if content and isinstance(content, list)
        else None
    )
    logprob = math.nan if row["logprob"] is None else float(row["logprob"])
    return Position(token, logprob if logprob <= ROUNDING else math.nan, key=key)
