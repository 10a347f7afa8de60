"""A chat model behind an OpenAI-compatible endpoint, as a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluation.served.client import CHAT, Client, Server
from evaluation.served.client import ServerError as JudgeError

__all__ = ["KEY", "MODEL", "URL", "Endpoint", "JudgeError", "Settings", "read_settings"]

URL, MODEL, KEY = "MARS_JUDGE_URL", "MARS_JUDGE_MODEL", "MARS_JUDGE_KEY"


@dataclass(frozen=True, slots=True)
class Settings(Server):
    """The judge's server, model and key."""

    role: str = "judge"

    @property
    def title(self) -> str:
        return f"The judge {self.model}"


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


class Endpoint(Client):
    """Thread-safe client."""

    def ask(self, messages: list[dict[str, str]]) -> str:
        """The answer to a conversation. Raises JudgeError when all tries have failed. Some models do not support a temperature."""
        body = {"model": self.server.model, "messages": messages, "temperature": 0.0}
        answer = self.post(CHAT, body, optional=("temperature",))
        try:
            content = answer["choices"][0]["message"]["content"]
        except (LookupError, TypeError):
            raise JudgeError(
                "The judge's answer is not a chat completion: it has no choices[0].message.content."
            ) from None
        return content if isinstance(content, str) else ""
