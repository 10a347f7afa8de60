"""A visitor's data: displayed, shared, taken along, exported and deleted, always that of whoever
asks."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mars_core.models import ModelPool
from storage import RunStore, Shared, StorageError
from tests.panels import assert_inert, read_panel
from tests.unit.ui import helpers
from tests.unit.ui.helpers import HOSTILE, client_of, failing, one_loop
from ui.app import build_app
from ui.jobs.services import Services
from ui.public.limits import PUBLIC_LIMITS
from ui.public.visitors import COOKIE
from ui.result.figure import SOURCE
from ui.routes import handlers
from ui.sharing import HIDDEN, consent_line, share_of
from ui.sharing import act as act_share
from ui.tabs.account.actions import NAME, act, look

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
    return list(store_of(services, request).comparisons()["prompt"])


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


def test_deleting_requires_the_word_and_takes_only_what_the_visitor_owns(
    services: Services,
) -> None:
    gone, other = keep(services, FakeRequest(), "gone"), keep(services, FakeRequest(TWO), "stays")
    store_of(services).share(Shared.COMPARISON, gone)
    panel = read_panel(look(services, FakeRequest()).html())
    (field,) = [field for field in panel.all("input") if field.attributes.get("name") == "word"]
    pattern = re.compile(field.attributes["pattern"])
    assert all(map(pattern.fullmatch, ("delete", " DELETE ", "Delete"))) and not any(
        map(pattern.fullmatch, ("", "del"))
    )
    assert (
        "1 comparison with 2 runs" in panel.one(".mars-account-confirm").text
        and panel.one("form").hidden
    )
    for word in (None, "", "no", ["delete"], HOSTILE):
        answer = act(
            services, FakeRequest(), {"action": "delete", "word": word, "owner": "browser:x"}
        )
        assert answer.state == "failed" and prompts(services, FakeRequest()) == ["gone"]
    answer = act(services, FakeRequest(), {"action": "delete", "word": " Delete "})
    assert (
        answer.message.startswith("Deleted for good: 1 comparison with 2 runs.")
        and answer.state == "done"
    )
    assert not answer.anything and not answer.shares
    assert prompts(services, FakeRequest(TWO)) == ["stays"] and services.store.load(other)
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


def test_sharing_refuses_what_cannot_be_shared_and_hides_where_it_is_unavailable(
    services: Services, store: RunStore
) -> None:
    comparison = keep(services, FakeRequest())
    mine = services.for_visitor(FakeRequest())
    share = {"action": "share"}
    for press in ({}, share, share | {"kind": "comparison", "id": "../x"}, {"id": [1], "kind": {}}):
        assert act_share(mine, press) == HIDDEN
    wrong = act_share(mine, share | {"kind": HOSTILE, "id": comparison})
    assert_inert(wrong.html())
    assert wrong.token == "" and "must be one of" in wrong.message
    private = read_panel(
        share_of(replace(mine, public=False), Shared.COMPARISON, comparison).html()
    )
    assert [each.text for each in private.all("button") if not each.hidden][:2] == [
        "Copy link",
        "Share picture",
    ]
    assert "Share …" not in private.text
    token = mine.store.share(Shared.COMPARISON, comparison)
    assert (
        share_of(replace(mine, store=store.through(token)), Shared.COMPARISON, comparison) == HIDDEN
    )


def test_a_failing_store_is_one_sentence(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunStore, "counts", failing("The database could not be read."))
    for account in (
        look(services, FakeRequest()),
        act(services, FakeRequest(), {"action": "delete", "word": "delete"}),
    ):
        assert account.message == "The database could not be read." and account.state == "failed"


def test_a_link_is_displayed_once_and_ends_where_it_is_ended(services: Services) -> None:
    """By its owner alone: beside what is shared, or in the panel."""
    comparison = keep(services, FakeRequest(), HOSTILE)
    mine, other = services.for_visitor(FakeRequest()), services.for_visitor(FakeRequest(TWO))
    press, end = (
        {"action": action, "kind": "comparison", "id": comparison}
        for action in ("share", "unshare")
    )
    assert not share_of(mine, Shared.COMPARISON, comparison).shared
    link = act_share(mine, press)
    made = read_panel(link.html())
    assert (
        link.shared and services.store.through(link.token).load(comparison).prompt.text == HOSTILE
    )
    (address,) = [field.attributes["data-address"] for field in made.all("input")]
    assert json.loads(made.all("button")[0].attributes["data-address"]) == {
        "comparison": comparison
    }
    assert (
        set(json.loads(address)) == {"comparison", "share"}
        and not made.one(".mars-share-link").hidden
    )
    again = read_panel(share_of(mine, Shared.COMPARISON, comparison).html())
    assert (
        again.one(".mars-share-link").hidden and "data-address" not in again.one("input").attributes
    )
    refused = act_share(other, press)
    assert refused.token == "" and "There is no comparison" in refused.message
    assert share_of(other, Shared.COMPARISON, comparison) == HIDDEN
    (row,) = look(services, FakeRequest()).shares
    assert (row.kind, row.object_id) == ("comparison", comparison)
    assert (
        look(services, FakeRequest(TWO)).shares == ()
        and act(services, FakeRequest(TWO), end).state == "failed"
    )
    assert services.store.through(link.token).count() == 1
    ended = read_panel(act_share(mine, end).html())
    assert "Only you" in ended.one(".mars-share-row").text and "not work any more" in ended.text
    token = act_share(mine, press).token
    assert act(services, FakeRequest(), end).shares == ()
    for gone in (token, link.token):
        with pytest.raises(StorageError):
            services.store.through(gone)


def test_a_private_page_shows_nothing_of_it_and_deletes_nothing_at_once(
    store: RunStore,
) -> None:
    private = Services(ModelPool(device="cpu"), store, sign_in=True)
    assert consent_line(private) is None
    with one_loop():
        built = build_app(private)
    assert not built.expects_oauth
    assert "account" not in {block.elem_id for block in built.blocks.values()}
    keep(private, FakeRequest())
    assert (
        act(private, FakeRequest(), {"action": "delete", "word": "delete"}).state == "failed"
        and store.count() == 1
    )


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


def test_a_full_disk_ends_the_export_in_a_sentence(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(
        "storage.export.everything.ZipFile", failing("No space left on device", OSError)
    )
    before = set(tmp_path.iterdir())
    answer = client_of(services).get(PATH, headers={"cookie": f"{COOKIE}={ONE}"})
    assert (
        answer.status_code == 503
        and answer.text.count("\n") == 1
        and str(tmp_path) not in answer.text
    )
    assert (
        answer.text.startswith("The export was not written") and set(tmp_path.iterdir()) == before
    )


def test_few_downloads_of_a_visitor_are_written_at_once(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whatever address; visitors without a cookie count as one, and the library of the figures
    is no download."""
    inner: dict[tuple[str, str], list[tuple[str, str]]] = {
        ("", ""): [(ONE, "1")],
        (ONE, "1"): [(ONE, "2"), (ONE, "1")],
        (ONE, "2"): [(ONE, "3"), (ONE, "3"), (TWO, "3"), ("", "3")],
        ("", "3"): [("", "4")],
    }
    answers: dict[tuple[str, str], list[int]] = {}
    paths = iter([*handlers(services), "/downloads/runs.csv"] * 9)

    def download(visitor: tuple[str, str]) -> int:
        path = next(paths).replace("{name}", "runs.csv")
        return client.get(
            path, params={"at": visitor[1]}, headers={"cookie": f"{COOKIE}={visitor[0]}"}
        ).status_code

    def busy(_: Services, request: Request) -> Response:
        """Asks for others while it is written."""
        visitor = (request.cookies.get(COOKIE, ""), request.query_params["at"])
        answers[visitor] = [download(each) for each in inner.pop(visitor, ())]
        return PlainTextResponse("")

    monkeypatch.setattr("ui.routes.handlers", lambda _: dict.fromkeys(handlers(services), busy))
    client = client_of(replace(services, limits=PUBLIC_LIMITS))
    assert download(("", "")) == 200
    assert answers[ONE, "2"] == [429, 429, 200, 200]  # a refused one gives nothing free
    assert answers["", "3"] == [429] and answers[ONE, "1"] == [200, 200]
    assert client.get(f"/{SOURCE}").status_code == 200
