"""An OpenAI-compatible server: its address, model and key, and the errors of asking it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import httpx

KEY = "MARS_SERVER_KEY"  # of the environment: a key, or URL=KEY for each of several servers
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


def with_key(environment: Mapping[str, str], server: Server) -> Server:
    """Return a server with its key, which is the only one or that of its address. Raises
    ValueError."""
    words = environment.get(KEY, "").split()
    named = [word.partition("=") for word in words if "://" in word]
    keys = {Server(url).base: key for url, _, key in named}
    return replace(server, key=keys.get(server.base, "") if named else " ".join(words))
