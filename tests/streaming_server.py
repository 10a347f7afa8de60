"""A stand-in for a server that streams what a test tells it, and knows when its client has gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.answering import Answers, answering

Event = dict[str, Any]
LONG_S = 60  # more than any test waits


@dataclass
class Streaming:
    """``events``: of every answer; ``holds``: it then says nothing until the client has gone, which
    sets ``left``. ``moved``: where it sends its clients instead. ``metrics``: the text of
    ``/metrics``."""

    url: str = ""
    events: Sequence[Event] = ()
    holds: bool = False
    moved: str = ""
    metrics: str = ""
    requests: list[tuple[str, str, Event]] = field(default_factory=list)  # path, key, body
    left: threading.Event = field(default_factory=threading.Event)


def chunk(text: str, *positions: Event, finish: str | None = None) -> Event:
    """One event of a chat."""
    choice: Event = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return {"choices": [choice | ({"logprobs": {"content": positions}} if positions else {})]}


def position(token: str, logprob: Any, **others: Any) -> Event:
    """The log probability of a token, and those of ``others``."""
    top = [{"token": each, "logprob": value} for each, value in {token: logprob, **others}.items()]
    return {"token": token, "logprob": logprob, "top_logprobs": top}


@contextmanager
def stream_events(*events: Event, **changed: Any) -> Iterator[Streaming]:
    served = Streaming(events=events, **changed)

    class Handler(Answers):
        def do_GET(self) -> None:
            self.answer({})

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def answer(self, body: Event) -> None:
            key = self.headers["authorization"] or ""
            served.requests.append((self.path, key, body))
            self.send_response(307 if served.moved else 200)
            if served.moved:
                self.send_header("location", served.moved)
            texts = {"/v1/models": '{"data": [{"id": "only"}]}', "/metrics": served.metrics}
            text = texts.get(self.path)
            self.send_header("content-type", "text/event-stream" if text is None else "text/plain")
            self.end_headers()
            if text is not None:
                self.wfile.write(text.encode())
                return
            for event in served.events:
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            if served.holds:
                self.connection.settimeout(LONG_S)
                if self.connection.recv(1) == b"":
                    served.left.set()

    with answering(Handler) as url:
        served.url = f"{url}/v1"
        yield served
