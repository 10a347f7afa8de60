"""The real page in a real browser: one server and one Chromium for all tests, a window for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from bench.common.page import chromium
from tests.serving import Server

PATIENCE_MS = 60_000  # for whatever a busy machine takes its time with
ARGUMENTS = (
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP *.example 127.0.0.1",
    "--js-flags=--no-opt --no-maglev",  # no page is open for long enough to make up for optimising
)


@dataclass
class Window:
    """A page with what went wrong in it."""

    page: Page
    outside: list[str] = field(default_factory=list)  # requests that left this machine
    errors: list[str] = field(default_factory=list)  # uncaught exceptions of scripts


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with chromium(*ARGUMENTS) as browser:
        yield browser


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One for all windows, so that the scripts of a page are fetched and compiled once."""
    context = browser.new_context(
        color_scheme="light", reduced_motion="reduce", accept_downloads=True
    )
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture
def size() -> ViewportSize:
    """Of the window; a test may override it."""
    return ViewportSize(width=1280, height=900)


@pytest.fixture
def start() -> tuple[str, str]:
    """The query with which the page is opened, and what is displayed then; a test may override it."""
    return "", "#compare"


@pytest.fixture
def window(
    server: Server, context: BrowserContext, size: ViewportSize, start: tuple[str, str]
) -> Iterator[Window]:
    """A window of a visitor who was never there before. Afterwards: nothing left this machine, and
    no script failed."""
    context.clear_cookies()
    window = Window(context.new_page())
    origin = {"origin": server.url.rstrip("/"), "storageTypes": "local_storage"}
    context.new_cdp_session(window.page).send("Storage.clearDataForOrigin", origin)
    window.page.set_viewport_size(size)
    window.page.on("request", lambda request: _note_outside(window, request.url))
    window.page.on("pageerror", lambda error: window.errors.append(str(error)))
    window.page.goto(server.url + start[0])
    window.page.wait_for_selector(start[1])
    yield window
    window.page.close()
    assert window.outside == []
    assert window.errors == []


def _note_outside(window: Window, url: str) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
        window.outside.append(url)
