"""A chat model behind an OpenAI-compatible endpoint: sends requests and retries transient errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

URL, MODEL, KEY = "MARS_JUDGE_URL", "MARS_JUDGE_MODEL", "MARS_JUDGE_KEY"
PATH = "/chat/completions"
TIMEOUT_S = 120.0
PAUSE_S = 1.0  # before the second try; doubled for each further one, unless the server sets Retry-After
MAX_PAUSE_S = 60.0
_MAX_SHOWN = 200  # characters of a server's message
_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))  # transient statuses


class JudgeError(Exception):
    """The endpoint did not answer; one sentence, without the key."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``url``: up to ``/v1``. ``tries``: maximum number of requests per answer."""

    url: str
    model: str
    key: str = field(repr=False)
    tries: int = 5

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"The judge's URL is {self.url!r}; it must begin with http:// or https://.")


def read_settings(
    environment: Mapping[str, str], *, url: str | None = None, model: str | None = None
) -> Settings | None:
    """Settings from arguments, else environment variables; None without a key.

    Raises ValueError if there is a key but URL or model are missing.
    """
    if not (key := environment.get(KEY, "").strip()):
        return None
    url, model = url or environment.get(URL, ""), model or environment.get(MODEL, "")
    for name, value in ((URL, url), (MODEL, model)):
        if not value:
            raise ValueError(f"{KEY} is set and {name} is empty; name the judge's URL and model.")
    return Settings(url, model, key)


class Endpoint:
    """Thread-safe client. ``sleep`` can be replaced in tests."""

    def __init__(self, settings: Settings, sleep: Callable[[float], None] = time.sleep) -> None:
        self.settings = settings
        self._sleep = sleep
        self._client = httpx.Client(
            timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {settings.key}"}, follow_redirects=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, messages: list[dict[str, str]]) -> str:
        """The answer to a conversation. Raises JudgeError when all tries have failed."""
        body: dict[str, Any] = {"model": self.settings.model, "messages": messages, "temperature": 0.0}
        for number in range(1, self.settings.tries + 1):
            pause = PAUSE_S * 2 ** (number - 1)
            try:
                answer = self._client.post(self._address, json=body)
            except httpx.TransportError as error:  # includes time-outs
                trouble = f"did not answer ({type(error).__name__})"
            else:
                if answer.status_code == 200:
                    return _content(answer)
                trouble = f"answered {answer.status_code}: {self._shown(answer)}"
                if answer.status_code == 400 and "temperature" in answer.text and "temperature" in body:
                    del body["temperature"]  # some models do not support it
                    continue
                if answer.status_code not in _AGAIN:
                    break
                pause = _pause_of(answer, pause)
            if number < self.settings.tries:
                self._sleep(min(pause, MAX_PAUSE_S))
        raise JudgeError(f"The judge {self.settings.model} {trouble}.")

    @property
    def _address(self) -> str:
        url = self.settings.url.rstrip("/")
        return url if url.endswith(PATH) else url + PATH

    def _shown(self, answer: httpx.Response) -> str:
        """The beginning of a server's message on one line, without the key, which some servers repeat."""
        message = " ".join(answer.text.replace(self.settings.key, "…").split())
        return message[:_MAX_SHOWN] or "nothing"


def _pause_of(answer: httpx.Response, otherwise: float) -> float:
    """Seconds that the server asks to wait (Retry-After)."""
    try:
        return max(0.0, float(answer.headers["retry-after"]))
    except (KeyError, ValueError):
        return otherwise


def _content(answer: httpx.Response) -> str:
    try:
        content = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        raise JudgeError("The judge's answer is not a chat completion: it has no choices[0].message.content.") from None
    return content if isinstance(content, str) else ""
