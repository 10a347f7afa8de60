"""An OpenAI-compatible server: its address, model and key, and the errors of asking it."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

COMPLETIONS, CHAT = "/completions", "/chat/completions"


class ServerError(Exception):
    """The server did not answer; one sentence, without the key."""


class ServerDown(ServerError):
    """All tries failed with errors that may pass."""


@dataclass(frozen=True, slots=True)
class Server:
    """``url``: up to ``/v1``, which is added to a URL without a path. ``tries``: maximum number of
    requests per answer.

    Raises ValueError for a URL that is not http or https, or that contains a password or a query.
    """

    url: str
    model: str = ""
    key: str = field(default="", repr=False)
    tries: int = 5
    role: str = "server"  # in messages

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.url)
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError(
                f"The {self.role}'s URL is {self.url!r}; it must begin with http:// or https://."
            )
        if url.userinfo or url.query or url.fragment:
            why = "contains a password or a query; it must have only host, port and path"
            raise ValueError(f"The {self.role}'s URL {why}.")
        if not (self.key.isascii() and self.key.isprintable()):
            raise ValueError(f"The {self.role}'s key has characters that no key has.")

    @property
    def base(self) -> str:
        """The URL to which ``/completions`` is appended."""
        url = self.url.rstrip("/").removesuffix(CHAT)
        return url if httpx.URL(url).path.strip("/") else f"{url}/v1"

    @property
    def title(self) -> str:
        """The server in messages."""
        return f"The {self.role} {self.base}"
