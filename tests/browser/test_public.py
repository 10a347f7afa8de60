"""The public page in two browsers: each sees its own runs, a link opens one of them to read only, and own models are not offered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from storage import Shared
from tests.browser.conftest import PATIENCE_MS
from tests.browser.steps import compare, lane_text, open_history, open_settings
from tests.unit.ui.public.conftest import Served
from ui.public.visitors import COOKIE, browser_owner

pytestmark = pytest.mark.browser


@pytest.fixture
def pages(public: Served, browser: Browser) -> Iterator[tuple[Page, Page]]:
    """Two visitors. Afterwards: no script failed in either."""
    contexts = [browser.new_context(viewport={"width": 1280, "height": 900}) for _ in range(2)]
    errors: list[str] = []
    found = []
    for context in contexts:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(public.url)
        page.wait_for_selector("#compare")
        found.append(page)
    yield found[0], found[1]
    for context in contexts:
        context.close()
    assert errors == []


def secret(page: Page) -> str:
    (cookie,) = (each for each in page.context.cookies() if each.get("name") == COOKIE)
    assert cookie.get("httpOnly") and cookie.get("sameSite") == "Lax"
    return str(cookie.get("value"))


def test_each_browser_sees_its_own_and_what_a_link_shows(public: Served, pages: tuple[Page, Page]) -> None:
    mine, other = pages
    open_settings(mine)
    expect(mine.locator(".mars-limits").first).to_contain_text("at most: prompts of 8,000 characters")
    expect(mine.locator("#pair")).to_be_visible()
    expect(mine.locator("#pair option", has_text="Own folders")).to_have_count(0)
    compare(mine, tokens=16)
    text = lane_text(mine, 0)
    store = public.store.of(browser_owner(secret(mine)))
    (comparison,) = store.comparisons()["id"]
    open_history(mine)

    other.goto(f"{public.url}/?tab=history&comparison={comparison}")
    expect(other.locator("#history-strip p")).to_contain_text("or it is not yours; its owner can share it.")
    expect(other.locator(".mars-history-row")).to_have_count(0)

    token = store.share(Shared.COMPARISON, comparison)
    other.goto(f"{public.url}/?tab=history&comparison={comparison}&share={token}")
    expect(other.locator("#history-lane-0 .mars-text")).to_have_text(text)
    expect(other.get_by_text("Shared with you: read only.")).to_be_visible()
    expect(other.locator("#history-delete")).to_be_hidden()
    expect(other.locator("#history-name input, #history-name textarea").first).to_be_disabled()
    report = other.locator("#history-open-downloads a", has_text="report.html")
    expect(report).to_have_attribute("href", f"downloads/report.html?comparison={comparison}&share={token}")
    assert f"share={token}" in other.url
    with other.expect_download() as download:
        report.click()
    assert download.value.suggested_filename == f"mars-{comparison[:8]}.html"
    other.locator("#history-close").click()
    expect(other).not_to_have_url(f"{public.url}/?tab=history&comparison={comparison}&share={token}")
    assert "share=" not in other.url

    store.unshare(Shared.COMPARISON, comparison)
    other.goto(f"{public.url}/?tab=history&comparison={comparison}&share={token}")
    expect(other.locator("#history-strip p")).to_contain_text("not valid any more")
