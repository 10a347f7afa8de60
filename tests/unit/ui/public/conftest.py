"""One page in public mode for all tests of this folder, what A keeps there, and B who tries to read it
as a browser does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import connect_sse

from storage import Choice, RunStore, Source
from tests.serving import serving
from tests.unit.evaluation.report.studies import stored_study
from tests.unit.ui.helpers import keep
from ui.public.visitors import COOKIE, browser_owner

MARK = "SecretOfA"
A, B = "a" * 43, "b" * 43


EventCall = tuple[
    int, Sequence[Any], Any
]  # event, values of its inputs, what its component reports


@dataclass
class Stranger:
    """A browser with a separate cookie; ``session``: of its open page."""

    url: str
    secret: str
    session: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, cookies={COOKIE: self.secret}, timeout=60)

    def get(self, path: str, **query: str) -> httpx.Response:
        return self.http.get(path, params=query)

    def _send(
        self, path: str, event: int, values: Sequence[Any], event_data: Any, session: str
    ) -> httpx.Response:
        body = {"fn_index": event, "data": list(values), "event_data": event_data}
        return self.http.post(f"/gradio_api/{path}", json=body | {"session_hash": session})

    def join(
        self, event: int, values: Sequence[Any], event_data: Any = None, session: str = ""
    ) -> httpx.Response:
        """Put one event into the queue."""
        return self._send("queue/join", event, values, event_data, session or self.session)

    def direct(self, event: int, values: Sequence[Any], event_data: Any = None) -> httpx.Response:
        """One event that does not queue, as the page sends it."""
        return self._send("run/predict", event, values, event_data, self.session)

    def received(self) -> list[dict[str, Any]]:
        """All messages until everything that was joined has ended."""
        query = {"session_hash": self.session}
        with connect_sse(self.http, "GET", "/gradio_api/queue/data", params=query) as stream:
            return [message.json() for message in stream.iter_sse()]

    def send(self, *events: EventCall) -> list[dict[str, Any]]:
        """The ends of these events, one after the other."""
        ended = []
        for event in events:
            joined = self.join(*event)
            assert joined.status_code == 200, joined.text
            ended += [each for each in self.received() if each["msg"] == "process_completed"]
        return ended


def defaults(config: Mapping[str, Any]) -> dict[int, list[Any]]:
    """The values that each event of the page has at first. gradio gives states itself."""
    values = {part["id"]: part.get("props", {}).get("value") for part in config["components"]}
    return {
        event["id"]: [values.get(part) for part in event["inputs"]]
        for event in config["dependencies"]
    }


@dataclass(frozen=True)
class Served:
    """A running page; ``store``: its database, of all owners."""

    url: str
    folder: Path
    store: RunStore

    @property
    def log(self) -> str:
        """All that the process wrote."""
        return (self.folder / "log").read_text()


@dataclass(frozen=True)
class OwnedIds:
    """Ids of what A made."""

    comparison: str
    runs: tuple[str, ...]
    study: str
    round: str  # a comparison that was voted on
    vote: str


@contextmanager
def public_page(folder: Path) -> Iterator[Served]:
    with serving(
        "tests.unit.ui.public.serve", folder / "log", folder, ready=folder / "routes.json"
    ) as page:
        with RunStore(f"sqlite:///{folder / 'runs.db'}") as store:
            yield Served(page.url, folder, store)
        assert page.process.poll() is None, "the page did not live on"


def compared(store: RunStore, source: Source = Source.COMPARE) -> str:
    words = tuple(f" {MARK}{number}" for number in range(6))
    return keep(store, f"{MARK} asks for a story", source=source, new_tokens=6, words=words)


@pytest.fixture(scope="session")
def owned(served: Served) -> OwnedIds:
    """All that a visitor can have."""
    store = served.store.of(browser_owner(A))
    comparison, round_ = compared(store), compared(store, Source.VOTE)
    store.annotate(comparison, name=f"{MARK} name", tags=[f"{MARK} tag"], comment=f"{MARK} comment")
    vote = store.add_vote(round_, left_lane=0, right_lane=1, choice=Choice.LEFT)
    store.comment_vote(vote, f"{MARK} of a vote")
    study = stored_study(store, name=f"{MARK} of a study")
    runs = tuple(run.id for run in store.load(comparison).runs)
    return OwnedIds(comparison, runs, study, round_, vote)


@pytest.fixture
def stranger(served: Served) -> Iterator[Stranger]:
    client = Stranger(served.url, B, f"session{time.monotonic_ns()}")
    yield client
    client.http.close()
