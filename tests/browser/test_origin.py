"""Plain HTTP, another port or sibling host of the same site: its pages neither read nor share nor delete what a visitor has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page

from storage import RunStore, StorageError
from tests.browser.conftest import PATIENCE_MS
from tests.unit.ui.public.conftest import MARK, Served, compared
from ui.public.visitors import COOKIE, browser_owner

pytestmark = pytest.mark.browser
HOST = "lab.example"  # this machine: see ARGUMENTS of conftest.py
ASK = """async ([base, events, session]) => {
    const heard = [];
    for (const [event, data, event_data] of events) {
        const body = JSON.stringify({fn_index: event, data, event_data, session_hash: session});
        const headers = {"Content-Type": "application/json"};
        const joined = await fetch(`${base}/gradio_api/queue/join`, {method: "POST", credentials: "include", headers, body});
        heard.push(await joined.text());
        const told = await fetch(`${base}/gradio_api/queue/data?session_hash=${session}`, {credentials: "include"});
        heard.push(await told.text());
    }
    return heard.join("\\n");
}"""
READ = """async (base) => {
    const answers = await Promise.all(["/downloads/runs.csv", "/mine/export.zip", "/"].map(
        (path) => fetch(base + path, {credentials: "include"}).then((answer) => answer.text())));
    return answers.join("\\n");
}"""


class Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """Of somebody else's server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


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
    return comparison in list(store.comparisons()["id"])


def test_only_the_page_itself_acts_for_its_visitor(served: Served, page: Page, port: int) -> None:
    base = f"http://{HOST}:{urlsplit(served.url).port}"
    page.goto(base)
    known = secret(page)
    store = served.store.of(browser_owner(known))
    comparison = compared(store)
    config = httpx.get(f"{served.url}/config", timeout=60).json()
    ids = {event["api_name"]: event["id"] for event in reversed(config["dependencies"])}  # of several the first
    opened = [ids["go"], [None], {"tab": "history", "comparison": comparison}]
    asked = {"action": "share", "kind": "comparison", "id": comparison}
    actions = [
        each for each in config["dependencies"] if not each["inputs"] and str(each["api_name"]).startswith("press")
    ]
    share = [[each["id"], [], asked] for each in actions]
    delete = [ids["delete"], [None], None]

    for number, origin in enumerate((f"http://{HOST}:{port}", f"http://wiki.{HOST}:{port}")):
        page.goto(origin)
        assert MARK not in page.evaluate(READ, base)
        told = page.evaluate(ASK, [base, [opened, *share, delete], f"attack{number}"])
        assert MARK not in told and "event_id" in told, told
        assert there(store, comparison) and store.shares() == ()
        assert secret(page) == known

    page.goto(base)
    assert MARK in page.evaluate(READ, base)
    told = page.evaluate(ASK, [base, [opened, *share], "own"])
    assert MARK in told and len(store.shares()) == 1, json.dumps(told)[:2000]
    page.evaluate(ASK, [base, [opened, delete], "own"])
    assert not there(store, comparison)
