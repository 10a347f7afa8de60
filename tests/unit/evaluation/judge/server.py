"""A stand-in for an OpenAI-compatible endpoint on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

KEY = "sk-secret-1234"


class Reply(NamedTuple):
    """``text`` as the content of a chat completion, or with another status as the body; or the
    full answer."""

    text: str | dict[str, Any]
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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                requests.append(JudgeRequest(self.path, self.headers["authorization"], body))
                reply = judge(body, len(requests) - 1)
            chat = {"choices": [{"message": {"role": "assistant", "content": reply.text}}]}
            body_ = reply.text if isinstance(reply.text, dict) else chat
            content = (json.dumps(body_) if reply.status == 200 else str(reply.text)).encode()
            self.send_response(reply.status)
            for name, value in (*reply.headers, ("content-length", str(len(content)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_words: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
