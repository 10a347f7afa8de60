"""The public page: two browsers see their runs and what is shared; pages of other hosts neither
read nor share nor delete anything."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from storage import RunStore, Search, StorageError
from tests.answering import Answers, answering
from tests.browser.conftest import PATIENCE_MS, Window
from tests.browser.steps import (
    axe_problems,
    button,
    compare,
    expected,
    lane_text,
    open_settings,
    reopen_latest,
)
from tests.serving import Server
from tests.unit.ui.public.conftest import MARK, Served, compared
from ui.public.visitors import COOKIE, browser_owner

pytestmark = pytest.mark.browser


HOST = "lab.example"  # this machine: see ARGUMENTS of conftest.py


class Empty(Answers):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def port() -> Iterator[int]:
    """Of somebody else's server on this machine."""
    with answering(Empty) as url:
        yield urlsplit(url).port or 0


@pytest.fixture(scope="module")
def server(served: Served) -> Server:
    return Server(f"{served.url}/", f"sqlite:///{served.folder / 'runs.db'}")


@pytest.fixture
def other(browser: Browser) -> Iterator[Page]:
    """A page of another browser. Afterwards: no script failed in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def test_what_is_shared_is_read_by_others_until_it_ends_and_all_is_deleted(
    window: Window, server: Server, other: Page, port: int
) -> None:
    page = window.page
    expected(page, ".mars-consent").to_contain_text("stored for 30 days")
    open_settings(page)
    expect(page.locator(".mars-limits").first).to_contain_text("at most: 8,000 characters a prompt")
    expected(page, "#pair").to_be_visible()
    expect(page.locator("#pair option", has_text="My own model")).to_have_count(0)
    (cookie,) = (each for each in page.context.cookies() if each.get("name") == COOKIE)
    assert cookie.get("httpOnly") and cookie.get("sameSite") == "Lax"
    compare(page, tokens=8)
    text = lane_text(page, 0)
    reopen_latest(page)
    expect(page).to_have_url(re.compile("comparison=[0-9a-f]{32}"))
    other.goto(page.url)
    expected(other, "#history-strip p").to_contain_text(
        "or it is not yours; its owner can share it."
    )
    expected(other, ".mars-history-row").to_have_count(0)

    button(page.locator("#history-share"), "Share …").click()
    link = page.locator("#history-share").get_by_label("Link")
    expect(link).to_have_value(re.compile(r"\?comparison=[0-9a-f]{32}&share=[\w-]{32,}$"))
    expect(link).to_be_focused()
    address = link.input_value()
    query = address.partition("?")[2]
    code = button(page.locator("#history-share"), "Copy embed").get_attribute("value")
    assert code is not None
    other.goto(f"http://{HOST}:{port}")  # a page of somebody else
    other.set_content(f"<p>A post</p>{code}")
    framed = other.frame_locator("iframe")
    expect(framed.locator(".mars-lane .mars-text").first).to_have_text(text)
    expect(framed.get_by_role("tab")).to_have_count(0)
    opened = framed.get_by_role("link", name="Open this comparison")
    expect(opened).to_have_attribute("href", f"?{query}")
    other.goto(address)
    expected(other, "#history-lane-0 .mars-text").to_have_text(text)
    expect(other.get_by_text("Shared with you: read only.")).to_be_visible()
    expected(other, "#history-delete").to_be_hidden()
    expected(other, "#history-share .mars-share").to_be_hidden()
    expect(other.locator("#history-name input").first).to_be_disabled()
    expected(other, ".mars-history-row").to_have_count(0)
    report = other.locator("#history-open-downloads a", has_text="report.html")
    expect(report).to_have_attribute("href", f"downloads/report.html?{query}")
    with other.expect_download() as download:
        report.click()
    assert re.fullmatch(r"mars-[0-9a-f]{8}\.html", download.value.suggested_filename)
    expect(other).to_have_url(re.compile("share="))
    other.locator("#history-close").click()
    expect(other).not_to_have_url(re.compile("share="))

    button(page, "Export, delete, shared links").click()
    expected(page, ".mars-account-shares li").to_have_count(1)
    assert axe_problems(page) == {}
    export = page.get_by_role("link", name="Export all").get_attribute("href")
    with zipfile.ZipFile(io.BytesIO(page.request.get(f"{server.url}{export}").body())) as archive:
        assert "comparisons.json" in archive.namelist()
    button(page, "Stop sharing the comparison").click()
    expected(page, ".mars-account-none").to_have_text("Nothing is shared.")
    expected(page, "#history-share .mars-share").to_contain_text("Only you")
    other.goto(address)
    expected(other, "#history-strip").to_contain_text("not valid any more")

    button(page, "Delete all of my data").click()
    sure = button(page, "Delete for good")
    expect(page.get_by_label("Type delete to confirm")).to_be_focused()
    expect(sure).to_be_disabled()
    page.keyboard.type("delete")
    page.keyboard.press("Enter")
    expected(page, ".mars-account-message").to_contain_text(
        "Deleted for good: 1 comparison with 2 runs."
    )
    expected(page, ".mars-history-row").to_have_count(0)
    expected(page, "#history-open").to_be_hidden()
    page.set_viewport_size({"width": 360, "height": 780})
    button(page, "Switch between light and dark").click()
    expected(page, ".mars-account-who").to_contain_text("Nothing of yours is stored here.")
    expect(button(page, "Delete all of my data")).to_be_disabled()
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    assert axe_problems(page) == {}


POST_EVENTS = """async ([base, events, session]) => {
    const received = [];
    for (const [event, data, event_data] of events) {
        const body = JSON.stringify({fn_index: event, data, event_data, session_hash: session});
        const headers = {"Content-Type": "application/json"};
        const joined = await fetch(`${base}/gradio_api/queue/join`, {method: "POST", credentials: "include", headers, body});
        received.push(await joined.text());
        const answer = await fetch(`${base}/gradio_api/queue/data?session_hash=${session}`, {credentials: "include"});
        received.push(await answer.text());
    }
    return received.join("\\n");
}"""
READ = """async (base) => {
    const answers = await Promise.all(["/downloads/runs.csv", "/mine/export.zip", "/"].map(
        (path) => fetch(base + path, {credentials: "include"}).then((answer) => answer.text())));
    return answers.join("\\n");
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def secret(page: Page) -> str:
    (cookie,) = (each for each in page.context.cookies() if each.get("name") == COOKIE)
    return str(cookie.get("value"))


def there(store: RunStore, comparison: str) -> bool:
    try:
        store.load(comparison)
    except StorageError:
        return False
    return comparison in store.matching_ids(Search(limit=1000))


def test_only_the_page_itself_acts_for_its_visitor(served: Served, page: Page, port: int) -> None:
    base = f"http://{HOST}:{urlsplit(served.url).port}"
    page.goto(base)
    known = secret(page)
    store = served.store.of(browser_owner(known))
    comparison = compared(store)
    config = httpx.get(f"{served.url}/config", timeout=60).json()
    ids = {
        event["api_name"]: event["id"] for event in reversed(config["dependencies"])
    }  # of several the first
    opened = [ids["go"], [None], {"tab": "history", "comparison": comparison}]
    data = {"action": "share", "kind": "comparison", "id": comparison}
    actions = [
        each
        for each in config["dependencies"]
        if not each["inputs"] and str(each["api_name"]).startswith("press")
    ]
    share = [[each["id"], [], data] for each in actions]
    delete = [ids["act"], [None], {"action": "delete"}]

    for number, origin in enumerate((f"http://{HOST}:{port}", f"http://wiki.{HOST}:{port}")):
        page.goto(origin)
        assert MARK not in page.evaluate(READ, base)
        text = page.evaluate(POST_EVENTS, [base, [opened, *share, delete], f"attack{number}"])
        assert MARK not in text and "event_id" in text, text
        assert there(store, comparison) and store.shares() == ()
        assert secret(page) == known

    page.goto(base)
    assert MARK in page.evaluate(READ, base)
    text = page.evaluate(POST_EVENTS, [base, [opened, *share], "own"])
    assert MARK in text and len(store.shares()) == 1, json.dumps(text)[:2000]
    page.evaluate(POST_EVENTS, [base, [opened, delete], "own"])
    assert not there(store, comparison)
