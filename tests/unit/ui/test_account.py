"""A visitor's data: displayed, shared, taken along, exported and deleted, always that of whoever
asks."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from mars_core.models import ModelPool
from storage import RunStore, Search, Shared, StorageError
from tests.unit.ui import helpers
from tests.unit.ui.helpers import HOSTILE, client_of
from ui.jobs.services import Services
from ui.kit.assets import SOURCE
from ui.public.limits import PUBLIC_LIMITS
from ui.public.visitors import COOKIE, Visitor
from ui.routes import Downloads, handlers
from ui.sharing import consent_line
from ui.tabs.account.panel import NAME, act, look

ONE, TWO = "a" * 43, "b" * 43  # cookies of two browsers


@dataclass
class FakeRequest:
    """What a request is to the page: a cookie, and perhaps a session that gradio signed."""

    secret: str = ONE
    subject: str = ""
    session_hash: str = "page"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def cookies(self) -> dict[str, str]:
        return {COOKIE: self.secret} if self.secret else {}

    @property
    def scope(self) -> dict[str, Any]:
        user = {"sub": self.subject, "preferred_username": f"name of {self.subject}"}
        return {"session": {"oauth_info": {"userinfo": user}} if self.subject else {}}


@pytest.fixture
def services(store: RunStore) -> Services:
    return Services(ModelPool(device="cpu"), store, public=True, sign_in=True, retention_days=30)


def store_of(services: Services, request: FakeRequest | None = None) -> RunStore:
    return services.for_visitor(request or FakeRequest()).store


def keep(services: Services, request: FakeRequest, prompt: str = "Tell me.") -> str:
    return helpers.keep(store_of(services, request), prompt, new_tokens=4)


def prompts(services: Services, request: FakeRequest) -> list[str]:
    return [row["prompt"] for row in store_of(services, request).find(Search()).rows]


def test_what_is_stored_and_for_how_long_only_its_owner_reads(services: Services) -> None:
    keep(services, FakeRequest())
    mine, other = look(services, FakeRequest()), look(services, FakeRequest(TWO))
    assert (
        "1 comparison with 2 runs" in mine.counts and mine.anything and "30 days" in mine.retention
    )
    assert "Nothing of yours" in other.counts and not other.anything
    for days, words in ((30, "stored for 30 days"), (None, "until you delete them")):
        line = consent_line(replace(services, retention_days=days))
        assert line is not None and words in line.value and "no personal data" in line.value


def test_the_panel_says_who_the_visitor_is(services: Services) -> None:
    assert "random number in a cookie" in look(services, FakeRequest()).who
    assert "does not store cookies" in look(services, FakeRequest("")).who
    assert "Signed in as name of 7." in look(services, FakeRequest(subject="7")).who


def test_deleting_requires_the_word(services: Services) -> None:
    gone = keep(services, FakeRequest(), "gone")
    for word in (None, "", "no", ["delete"], HOSTILE):
        sent = {"action": "delete", "word": word, "owner": "browser:x"}
        assert act(services, FakeRequest(), sent).state == "failed"
    assert prompts(services, FakeRequest()) == ["gone"]
    assert act(services, FakeRequest(), {"action": "delete", "word": " Delete "}).state == "done"
    with pytest.raises(StorageError):
        services.store.load(gone)


def test_who_signs_in_can_move_what_the_browser_made(services: Services) -> None:
    shared = keep(services, FakeRequest(), "before")
    store_of(services).share(Shared.COMPARISON, shared)
    keep(services, FakeRequest(TWO), "another's")
    signed = FakeRequest(subject="7")
    for request in (
        FakeRequest(),
        FakeRequest(TWO),
        FakeRequest("", subject="7"),
    ):  # without signing in, or without a cookie
        assert act(services, request, {"action": "move"}).state == "failed"
    assert "1 comparison with 2 runs" in look(services, signed).movable
    assert (
        act(services, signed, {"action": "move"}).message
        == "Moved to your account: 1 comparison with 2 runs."
    )
    assert (
        prompts(services, signed) == ["before"]
        and prompts(services, FakeRequest()) == []
        and look(services, signed).movable == ""
    )
    assert [link.object_id for link in look(services, signed).shares] == [shared]
    assert prompts(services, FakeRequest(TWO)) == ["another's"]


PATH = "/mine/export.zip"


def test_the_export_has_what_the_visitor_owns_and_leaves_nothing_behind(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keep(services, FakeRequest(), "my own words")
    client = client_of(services)
    before = set(tmp_path.iterdir())
    answer = client.get(PATH, headers={"cookie": f"{COOKIE}={ONE}"})
    assert answer.status_code == 200 and NAME in answer.headers["content-disposition"]
    assert "no-store" in answer.headers["cache-control"] and set(tmp_path.iterdir()) == before
    assert "my own words" in unzipped(answer.content)
    assert "my own words" not in unzipped(
        client.get(PATH, headers={"cookie": f"{COOKIE}={TWO}"}).content
    )
    assert client.get(PATH).status_code == 403


def unzipped(content: bytes) -> str:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return "\n".join(archive.read(name).decode(errors="replace") for name in archive.namelist())


def test_few_downloads_of_a_visitor_are_written_at_once(services: Services) -> None:
    """Visitors without a cookie count as one, and the library of the figures is no download."""
    under_way, (one, two) = Downloads(2), (Visitor(owner) for owner in "ab")
    bare = [Visitor(owner, lasting=False) for owner in "cd"]
    with ExitStack() as writing:
        free = [
            writing.enter_context(under_way.one_of(each))
            for each in (one, one, one, two, *bare, one)
        ]
    assert free == [True, True, False, True, True, True, False]
    with under_way.one_of(one) as again:  # a refused one gives nothing free
        assert again
    client = client_of(replace(services, limits=replace(PUBLIC_LIMITS, downloads=0)))
    for path in (*handlers(services), "/downloads/runs.csv"):
        assert client.get(path.replace("{name}", "runs.csv")).status_code == 429
    assert client.get(f"/{SOURCE}").status_code == 200
