"""A stand-in for an OpenAI-compatible endpoint on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.answering import Answers, answering

KEY = "sk-secret-1234"


class Reply(NamedTuple):
    """``text`` as the content of a chat completion, or with another status as the body."""

    text: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class JudgeRequest(NamedTuple):
    path: str
    authorization: str
    body: dict[str, Any]


@contextmanager
def serve(
    judge: Callable[[dict[str, Any], int], Reply],
) -> Iterator[tuple[str, list[JudgeRequest]]]:
    """URL and the requests received; ``judge`` gets a request's body and its number, from 0."""
    requests: list[JudgeRequest] = []
    lock = threading.Lock()

    class Handler(Answers):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                requests.append(JudgeRequest(self.path, self.headers["authorization"], body))
                reply = judge(body, len(requests) - 1)
            chat = {"choices": [{"message": {"role": "assistant", "content": reply.text}}]}
            content = (json.dumps(chat) if reply.status == 200 else reply.text).encode()
            self.send_response(reply.status)
            for name, value in (*reply.headers, ("content-length", str(len(content)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    with answering(Handler) as url:
        yield f"{url}/v1", requests
