"""Captured streams of servers: their events, put together to answers in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from evaluation.served.answer import assembled, read_event

_BEGINS = ("data:", "event:", "id:", "retry:", ":")  # the lines of server-sent events


def is_stream(text: str) -> bool:
    return text.lstrip().startswith(_BEGINS)


def streamed_answers(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the answers of a file, each with its position. Events of one answer have the same id;
    where they have none, an answer ends with its last event. Raises ValueError."""
    answers: dict[Any, list[dict[str, Any]]] = {}
    began: dict[Any, int] = {}
    ended = 0
    for number, line in enumerate(text.split("\n"), 1):
        try:
            event = read_event(line)
        except (ValueError, AttributeError):
            raise ValueError(f"the event in line {number} is not a JSON object") from None
        if event is None:
            ended += "[DONE]" in line
            continue
        key = event.get("id") or (event.get("meta_info") or {}).get("id") or ended
        answers.setdefault(key, []).append(event)
        began.setdefault(key, number)
        ended += event.get("stop") is True
    for key, events in answers.items():
        yield f"the stream of line {began[key]}", _answer(events)


def _answer(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answer of a stream of chats and completions, or of the servers' own endpoints:
    SGLang repeats in each event what it wrote before, unless it was told not to; llama.cpp does
    not. ``parts`` of a choice: what it is in each event."""
    row = assembled(events)
    ends = [choice.get("finish_reason") for choice in row.get("choices", ())]
    for choice in row.get("choices", ()):
        every = [each for event in events for each in event.get("choices") or ()]
        choice["parts"] = [each for each in every if each.get("index", 0) == choice.get("index", 0)]
    if "meta_info" in row:
        row |= {name: _joined(events, name) for name in ("text", "output_ids") if name in row}
        ends.append(row["meta_info"].get("finish_reason"))
    elif "content" in row:
        row["content"] = "".join(event.get("content") or "" for event in events)
        row["choices"] = [own_choice(row) | {"parts": [own_choice(each) for each in events]}]
        ends.append(row.get("stop"))
    if not all(ends):
        raise ValueError("it ends without a finish reason")
    return row


def own_choice(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the own endpoint of llama.cpp or SGLang reports as a choice of the OpenAI
    interface."""
    ended = (row.get("meta_info") or {}).get("finish_reason")
    return {
        "text": row.get("content", row.get("text")),
        "token_ids": row.get("output_ids"),
        "logprobs": {"content": row.get("completion_probabilities")},
        "finish_reason": ended["type"] if ended else row.get("stop_type"),
    }


def _joined(events: Sequence[Mapping[str, Any]], name: str) -> Any:
    parts = [event[name] for event in events if event.get(name) is not None]
    if all(later[: len(earlier)] == earlier for earlier, later in pairwise(parts)):
        return parts[-1]
    return "".join(parts) if isinstance(parts[0], str) else [*chain.from_iterable(parts)]
