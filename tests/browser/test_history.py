"""History on the real page: notes, search, runs side by side, a shared address, deletion and its undo."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.steps import compare, fill, open_history, reopen_latest

pytestmark = pytest.mark.browser


def test_runs_stand_side_by_side_and_the_address_shows_them_again(window: Window) -> None:
    """Before and after that, a comparison is named, found, deleted and brought back."""
    page = window.page
    rows, found = page.locator(".mars-history-row"), page.locator(".mars-search-text input")
    compare(page, tokens=12)
    fill(page, "Temperature", "0")
    compare(page, tokens=12)
    open_history(page)
    heads = page.locator(".mars-runs thead th")
    page.locator(".mars-history-run input").first.click()
    expect(heads).to_have_count(1)
    # three at once: none is lost while the list is drawn anew
    page.evaluate("[...document.querySelectorAll('.mars-history-run input')].slice(1, 4).forEach((box) => box.click())")
    expect(heads).to_have_count(4)
    expect(page.locator(".mars-history-run input:checked")).to_have_count(4)
    compared = page.locator(".mars-runs tbody tr:visible")
    every = compared.count()
    page.get_by_label("Differences only").check()
    assert 0 < compared.count() < every
    page.goto(page.url)
    expect(heads).to_have_count(4)

    reopen_latest(page)
    for name, text in (("name", "the odd one"), ("tags", "odd, paper")):
        page.locator(f"#history-{name} textarea, #history-{name} input").first.fill(text)
    page.click("#history-save")
    expect(page.locator(".mars-history-name").first).to_have_text("the odd one")
    for text, count in (("ODD O", 1), ("nothing has this name", 0), ("odd o", 1)):
        found.fill(text)
        expect(rows).to_have_count(count)
    page.click("#history-delete")
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".mars-history-name")).to_have_text("the odd one")
