"""The answer of a server to one request, read from its server-sent events."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

MAX_BYTES = 16 * 2**20  # of one answer
MAX_S = 1800.0  # of one answer
_KNOWN = frozenset(("id", "object", "created", "model", "choices", "usage"))
_KNOWN_OF_CHOICE = frozenset(("index", "text", "delta", "logprobs", "finish_reason", "token_ids", "prompt_token_ids"))


class Broken(Exception):
    """An answer that ended too early, which may succeed at the next try; the message continues "The server …"."""


class Position(NamedTuple):
    """One token of an answer: its text as the server wrote it, its log probability (nats) and the most likely tokens with theirs."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """One completed answer. None: the server did not report it. ``extra``: all other fields of the server, the last value of each.

    ``ttft_s``: seconds from sending the request to the first token; ``wall_s``: to the end of the answer.
    """

    id: str
    text: str
    finish_reason: str
    token_ids: tuple[int, ...] | None
    prompt_ids: tuple[int, ...] | None
    logprobs: tuple[Position, ...] | None
    usage: Mapping[str, Any]
    ttft_s: float
    wall_s: float
    extra: Mapping[str, Any]


def read_bytes(answer: httpx.Response, started: float) -> Iterator[bytes]:
    """The body, decompressed. Raises ValueError for one that is too long and Broken for one that takes too long."""
    size = 0
    for data in answer.iter_bytes():
        if (size := size + len(data)) > MAX_BYTES:
            raise ValueError("The answer is too long.")
        if time.perf_counter() - started > MAX_S:
            raise Broken(f"did not finish its answer within {MAX_S:,.0f} seconds")
        yield data


def read_stream(answer: httpx.Response, started: float) -> Generator[int, None, Answer]:
    """Yields the number of tokens (chunks, without ids) of each event; returns the answer.

    Raises Broken where the stream ended without a finish reason or with an error, and ValueError, LookupError, TypeError or
    AttributeError where it is not a stream of completions.
    """
    if "text/event-stream" not in answer.headers.get("content-type", ""):
        raise ValueError("The answer is not a stream of events.")
    texts: list[str] = []
    ids: list[int] = []
    prompt_ids: tuple[int, ...] | None = None
    logprobs: list[Position] = []
    usage: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    name, finish_reason, ttft_s = "", "", 0.0
    for event in _events(answer, started):
        if "error" in event and not event.get("choices"):
            error = event["error"]
            message = error.get("message") if isinstance(error, dict) else error
            raise Broken(f"ended its answer with an error: {message}")
        name = str(event.get("id") or name)
        usage = dict(event.get("usage") or usage)
        extra |= {key: value for key, value in event.items() if key not in _KNOWN and value is not None}
        prompt_ids = _whole(event.get("prompt_token_ids")) or prompt_ids
        for choice in event["choices"][:1]:
            extra |= {key: value for key, value in choice.items() if key not in _KNOWN_OF_CHOICE and value is not None}
            text = (choice["text"] if "text" in choice else choice["delta"].get("content")) or ""
            new = _whole(choice.get("token_ids")) or ()
            prompt_ids = _whole(choice.get("prompt_token_ids")) or prompt_ids
            logprobs += _positions(choice.get("logprobs"))
            texts.append(text)
            ids += new
            finish_reason = str(choice.get("finish_reason") or finish_reason)
            if text or new:
                ttft_s = ttft_s or time.perf_counter() - started
                yield len(new) or 1
    wall_s = time.perf_counter() - started
    if not finish_reason:
        raise Broken("ended its answer without a finish reason")
    return Answer(
        id=name, text="".join(texts), finish_reason=finish_reason, token_ids=tuple(ids) or None, prompt_ids=prompt_ids,
        logprobs=tuple(logprobs) or None, usage=usage, ttft_s=ttft_s or wall_s, wall_s=wall_s, extra=extra,
    )  # fmt: skip


def _events(answer: httpx.Response, started: float) -> Iterator[dict[str, Any]]:
    """The JSON objects of the events. Lines end with LF only: JSON may contain U+2028 and U+0085 as they are."""
    rest = b""
    for data in read_bytes(answer, started):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            content = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and content != b"[DONE]":
                yield dict(json.loads(content).items())


def _whole(values: Any) -> tuple[int, ...] | None:
    """Token ids; None where there are none. Raises TypeError or ValueError for anything else."""
    if values is None:
        return None
    if any(type(value) is not int or not 0 <= value < 2**31 for value in values):
        raise ValueError("A token id is not a whole number.")
    return tuple(values)


def _positions(logprobs: Any) -> list[Position]:
    """The tokens of an event, in the form of chats (``content``) or of completions (``tokens``, ``top_logprobs``)."""
    if not logprobs:
        return []
    if "content" in logprobs:
        given = [(each, each.get("top_logprobs") or ()) for each in logprobs["content"] or ()]
        pairs = [(each, [(top["token"], top["logprob"]) for top in tops]) for each, tops in given]
        return [_position(each["token"], each["logprob"], tops) for each, tops in pairs]
    tops = logprobs.get("top_logprobs") or [None] * len(logprobs["tokens"])
    rows = zip(logprobs["tokens"], logprobs["token_logprobs"], tops, strict=True)
    return [_position(token, value, list((top or {}).items())) for token, value, top in rows]


def _position(token: Any, value: Any, top: list[tuple[Any, Any]]) -> Position:
    """Alternatives in order of probability. Raises TypeError or ValueError for values of other types."""
    found = sorted(((str(name), float(logprob)) for name, logprob in top), key=lambda each: -each[1])
    return Position(str(token), math.nan if value is None else float(value), tuple(found))
