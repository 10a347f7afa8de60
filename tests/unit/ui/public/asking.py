"""How a stranger asks the page over HTTP: by its events, as a browser does, with whatever values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from ui.public.visitors import COOKIE

Asked = tuple[int, Sequence[Any], Any]  # event, values of its inputs, what its component reports


@dataclass
class Stranger:
    """A browser with a cookie of its own; ``session``: of its open page."""

    url: str
    secret: str
    session: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, cookies={COOKIE: self.secret}, timeout=60)

    def get(self, path: str, **query: str) -> httpx.Response:
        return self.http.get(path, params=query)

    def join(self, event: int, values: Sequence[Any], said: Any = None, session: str | None = None) -> httpx.Response:
        """Put one event into the queue."""
        body = {"fn_index": event, "data": list(values), "event_data": said, "session_hash": session or self.session}
        return self.http.post("/gradio_api/queue/join", json=body)

    def direct(self, event: int, values: Sequence[Any], said: Any = None) -> httpx.Response:
        """One event that does not queue, as the page sends it."""
        body = {"fn_index": event, "data": list(values), "event_data": said, "session_hash": self.session}
        return self.http.post("/gradio_api/run/predict", json=body)

    def heard(self, session: str | None = None) -> list[dict[str, Any]]:
        """All messages until everything that was joined has ended."""
        found = []
        with self.http.stream(
            "GET", "/gradio_api/queue/data", params={"session_hash": session or self.session}
        ) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line[6:]))
        return found

    def ask(self, *asked: Asked) -> list[dict[str, Any]]:
        """The ends of these events."""
        joined = [self.join(*each) for each in asked]
        assert all(answer.status_code == 200 for answer in joined), [answer.text for answer in joined]
        return [message for message in self.heard() if message["msg"] == "process_completed"]


def defaults(config: Mapping[str, Any]) -> dict[int, list[Any]]:
    """The values that each event of the page has at first. gradio gives states itself."""
    values = {part["id"]: part.get("props", {}).get("value") for part in config["components"]}
    return {event["id"]: [values.get(part) for part in event["inputs"]] for event in config["dependencies"]}
