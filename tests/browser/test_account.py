"""A stranger's own data on the real public page: consent, a link that others read and that ends, the export, and the end of it all."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.conftest import Server, Window
from tests.browser.steps import compare, open_history, reopen_latest
from tests.browser.test_look import BASELINE
from tests.unit.ui.public.conftest import Served

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(public: Served) -> Server:
    return Server(f"{public.url}/", f"sqlite:///{public.folder / 'runs.db'}")


@pytest.fixture
def other(browser: Browser) -> Iterator[Page]:
    """A page of another browser."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def open_yours(page: Page) -> None:
    page.locator(".mars-consent").get_by_role("button", name="Your data").click()
    expect(page.locator("#mars-account-body")).to_be_visible()


def problems(page: Page) -> dict[str, list[str]]:
    """What axe finds beyond gradio's own, and where our own text cannot be read."""
    found = {
        violation["id"]: [node["html"][:200] for node in violation["nodes"]]
        for violation in Axe().run(page).response["violations"]
    }
    ours = {name: [html for html in found[name] if "mars-" in html] for name in found.keys() & BASELINE}
    return {name: found[name] for name in found.keys() - BASELINE} | {
        n: html for n, html in ours.items() if html and n == "color-contrast"
    }


def test_what_is_shared_is_read_by_others_until_it_ends_and_all_is_deleted(
    window: Window, server: Server, other: Page
) -> None:
    page = window.page
    expect(page.locator(".mars-consent")).to_contain_text("stored for 30 days")
    compare(page, tokens=8)
    open_history(page)
    reopen_latest(page)
    page.locator("#history-share").get_by_role("button", name="Share …").click()
    link = page.locator("#history-share").get_by_label("Link")
    expect(link).to_have_value(re.compile(r"\?comparison=[0-9a-f]{32}&share=[\w-]{32,}$"))
    expect(link).to_be_focused()
    address = link.input_value()
    window.shot("mine-shared")

    other.goto(address)
    expect(other.locator("#history-lane-0 .mars-text")).to_be_visible()
    expect(other.locator("#history-share .mars-share")).to_be_hidden()
    expect(other.locator(".mars-history-row")).to_have_count(0)

    page.get_by_role("button", name="Export, delete, shared links").click()
    expect(page.locator(".mars-account-shares li")).to_have_count(1)
    assert problems(page) == {}
    window.shot("mine")
    content = page.request.get(
        f"{server.url}{page.get_by_role('link', name='Export all').get_attribute('href')}"
    ).body()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert "comparisons.json" in archive.namelist()
    page.get_by_role("button", name="Stop sharing the comparison").click()
    expect(page.locator(".mars-account-none")).to_have_text("Nothing is shared.")
    expect(page.locator("#history-share .mars-share")).to_contain_text("Only you")
    other.goto(address)
    expect(other.locator("#history-strip")).to_contain_text("not valid any more")

    page.get_by_role("button", name="Delete all of my data").click()
    sure = page.get_by_role("button", name="Delete for good")
    expect(page.get_by_label("Type delete to confirm")).to_be_focused()
    expect(sure).to_be_disabled()
    page.keyboard.type("delete")
    page.keyboard.press("Enter")
    expect(page.locator(".mars-account-said")).to_contain_text("Deleted for good: 1 comparison with 2 runs.")
    expect(page.locator(".mars-history-row")).to_have_count(0)
    expect(page.locator("#history-open")).to_be_hidden()


@pytest.mark.parametrize("size", [ViewportSize(width=360, height=780)])
def test_a_narrow_dark_window_shows_it_whole(window: Window) -> None:
    page = window.page
    page.get_by_role("button", name="Switch between light and dark").click()
    open_yours(page)
    expect(page.locator(".mars-account-who")).to_contain_text("Nothing of yours is kept here.")
    expect(page.get_by_role("button", name="Delete all of my data")).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert problems(page) == {}
    window.shot("mine-narrow")
