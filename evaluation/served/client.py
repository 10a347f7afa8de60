"""A thread-safe client of an OpenAI-compatible server: requests, retries of transient errors, and
error messages without the key."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, TypeVar

import httpx

from display.format import shorten
from evaluation.served.answer import Answer, Broken, Part, read_answer, read_bytes
from evaluation.served.server import CHAT, COMPLETIONS, Server, ServerDown, ServerError

TIMEOUT_S = 120.0  # without a byte from the server
PAUSE_S = (
    1.0  # before the second try; doubled for each further one, unless the server sets Retry-After
)
MAX_PAUSE_S = 60.0
_MAX_MESSAGE = 200  # characters of a server's message
_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))  # transient statuses
_OPTIONAL = (  # not sent again once a server has refused them
    "return_token_ids",
    "logprobs",
    "top_logprobs",
    "return_tokens_as_token_ids",
    "min_p",
    "repetition_penalty",
    "stream_options",
)
_T = TypeVar("_T")

# A text, token ids (for llama.cpp also texts among them), or the messages of a chat.
Prompt = str | Sequence[str | int] | Sequence[Mapping[str, str]]


class Client:
    """Sends requests to one server. ``sleep`` can be replaced in tests."""

    def __init__(
        self,
        server: Server,
        sleep: Callable[[float], None] = time.sleep,
        *,
        timeout_s: float = TIMEOUT_S,
        connect_s: float | None = None,
    ) -> None:
        self.server = server
        self._sleep = sleep
        self._refused: set[str] = set()
        self.sent = 0  # answers asked for
        self._connection: Any = None  # httpcore's stream of the latest
        self._aborted = False
        key = {"Authorization": f"Bearer {server.key}"} if server.key else {}
        headers = {"Content-Type": "application/json"} | key
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=connect_s or timeout_s),
            headers=headers,
            follow_redirects=False,
            limits=limits,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def abort(self) -> None:
        """End the request under way, from another thread, and all later ones."""
        self._aborted = True
        self._cut()

    def _traced(self, event: str, values: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._connection = values["return_value"]
            if self._aborted:
                self._cut()

    def _cut(self) -> None:
        """Shut the connection down, which ends the wait for its next byte as closing does not."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def models(self) -> tuple[str, ...]:
        """Ask for the names of the served models. Raises ServerError."""
        answer = result_of(self._send("GET", f"{self.server.base}/models", {}, (), _read_json))
        try:
            return tuple(str(model["id"]) for model in answer["data"])
        except (LookupError, TypeError):
            raise self._error(
                "answered /models with something that is not a list of models"
            ) from None

    def only_model(self) -> str:
        """Ask for the name of the model where there is one. Raises ValueError and ServerError."""
        models = self.models()
        if len(models) != 1:
            names = shorten(", ".join(models), 200) or "none"
            raise ValueError(
                f"{self.server.title} has {len(models)} models ({names}); the name of one of them "
                "is needed."
            )
        return models[0]

    def metrics(self) -> str:
        """Fetch the text of ``/metrics`` beside ``/v1``. Raises ServerError."""
        return result_of(
            self._send("GET", self.server.base.removesuffix("/v1") + "/metrics", {}, (), _read_text)
        )

    def post(
        self, path: str, body: Mapping[str, Any], *, optional: Collection[str] = _OPTIONAL
    ) -> Any:
        """Return the JSON of an answer. Fields of ``optional`` that a status 400 names are left out
        from then on. Raises ServerError."""
        return result_of(self._send("POST", self.server.base + path, body, optional, _read_json))

    def complete(self, prompt: Prompt, **settings: Any) -> Answer:
        """Return the complete answer of ``stream``."""
        return result_of(self.stream(prompt, **settings))

    def stream(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        logprobs: int = 2,
        xargs: Mapping[str, Any] | None = None,
        **further: Any,
    ) -> Generator[Part, None, Answer]:
        """Yields its parts as they arrive and returns the answer; closing it ends the request.

        ``logprobs``: alternatives per token, 0 for none. ``xargs``: vllm_xargs. ``further``: other
        fields of the body, None to leave one out. Raises ServerError.
        """
        chat = not isinstance(prompt, str) and bool(prompt) and isinstance(prompt[0], Mapping)
        body: dict[str, Any] = {
            "model": self.server.model,
            "messages" if chat else "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "seed": seed,
            "stop": list(stop) or None,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "vllm_xargs": dict(xargs or {}) or None,
        }
        if temperature > 0:  # also where they are off: a model may have other defaults
            body |= {"top_p": top_p, "top_k": top_k or -1}
        if logprobs:
            body |= {"logprobs": True, "top_logprobs": logprobs} if chat else {"logprobs": logprobs}
        body = {name: value for name, value in (body | further).items() if value is not None}
        self.sent += 1
        address = self.server.base + (CHAT if chat else COMPLETIONS)
        optional = _OPTIONAL if top_k else (*_OPTIONAL, "top_k")
        return (yield from self._send("POST", address, body, optional, read_answer))

    def _send(
        self,
        method: str,
        address: str,
        body: Mapping[str, Any],
        optional: Collection[str],
        read: Callable[[httpx.Response, float], Generator[Part, None, _T]],
    ) -> Generator[Part, None, _T]:
        """Give what ``read`` returns for an answer with status 200. Tries again after transient
        errors and answers that broke off."""
        trouble = ""
        number = 0
        while number < self.server.tries:
            number += 1
            yield Part()
            sent = {name: value for name, value in body.items() if name not in self._refused}
            content = json.dumps(sent).encode() if sent else None
            pause, started = PAUSE_S * 2 ** (number - 1), time.perf_counter()
            try:
                with self._http.stream(
                    method, address, content=content, extensions={"trace": self._traced}
                ) as answer:
                    if answer.status_code == 200:
                        return (yield from read(answer, started))
                    message = yield from _read_text(answer, started)
            except Broken as error:
                trouble = str(error)
            except httpx.RequestError as error:  # includes time-outs
                trouble = f"did not answer ({type(error).__name__})"
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                raise self._error(
                    "gave an answer that is not one of the OpenAI interface"
                ) from None
            else:
                trouble = f"answered {answer.status_code}" + (
                    f": {message}" if message.strip() else ""
                )
                refused = {name for name in optional if name in message and name in sent}
                if answer.status_code == 400 and refused:
                    self._refused |= refused
                    number -= 1  # no failed try
                    continue
                if answer.status_code not in _AGAIN:
                    raise self._error(trouble)
                pause = _pause_of(answer, pause)
            if number < self.server.tries:
                self._sleep(min(pause, MAX_PAUSE_S))
        raise self._error(trouble, ServerDown)

    def _error(self, trouble: str, kind: type[ServerError] = ServerError) -> ServerError:
        """Return one displayable line with the beginning of a server's message, without the key,
        which some servers repeat."""
        if self.server.key:
            trouble = trouble.replace(self.server.key, "…")
        return kind(f"{self.server.title} {shorten(trouble, _MAX_MESSAGE).rstrip('.')}.")


def with_model(server: Server) -> Server:
    """Return the server with the name of a model: if none is given, of the only one that it has.
    Raises ValueError and ServerError."""
    if server.model:
        return server
    with Client(server) as client:
        return replace(server, model=client.only_model())


def _pause_of(answer: httpx.Response, otherwise: float) -> float:
    """Seconds to wait as the server requests (Retry-After)."""
    try:
        return max(0.0, float(answer.headers["retry-after"]))
    except (KeyError, ValueError):
        return otherwise


def _read_json(answer: httpx.Response, started: float) -> Generator[Part, None, Any]:
    return json.loads((yield from _read_text(answer, started)))


def _read_text(answer: httpx.Response, started: float) -> Generator[Part, None, str]:
    yield Part()
    return b"".join(read_bytes(answer, started)).decode("utf-8", "replace")


def result_of(steps: Generator[Part, None, _T]) -> _T:
    """Return the return value of a generator."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: _T = end.value
            return value
