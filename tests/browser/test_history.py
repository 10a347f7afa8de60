"""History on the real page: notes, deletion and its undo, runs side by side, a shared address, the report, settings loaded again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Window
from tests.browser.steps import compare, fill, lane_text, open_history, open_settings, reopen_latest, wait_for

pytestmark = pytest.mark.browser
STRIP = "#history-strip .mars-strip"


def note(page: Page, name: str, text: str) -> None:
    page.locator(f"#history-{name} textarea, #history-{name} input").first.fill(text)


def test_a_comparison_is_named_found_deleted_and_brought_back(window: Window) -> None:
    page = window.page
    compare(page, tokens=12)
    open_history(page)
    reopen_latest(page)
    note(page, "name", "the odd one")
    note(page, "tags", "odd, paper")
    page.click("#history-save")
    expect(page.locator(".mars-history-name").first).to_have_text("the odd one")
    page.locator(".mars-search-text input").fill("ODD O")
    expect(page.locator(".mars-history-row")).to_have_count(1)
    page.locator(".mars-search-text input").fill("nothing has this name")
    expect(page.locator(".mars-history-row")).to_have_count(0)
    window.shot("history-nothing-found")
    page.locator(".mars-search-text input").fill("odd o")
    expect(page.locator(".mars-history-row")).to_have_count(1)
    page.click("#history-delete")
    expect(page.locator(".mars-history-row")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".mars-history-name")).to_have_text("the odd one")


def test_runs_stand_side_by_side_and_the_address_shows_them_again(window: Window) -> None:
    page = window.page
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
    rows = page.locator(".mars-runs tbody tr:visible").count()
    page.get_by_label("Differences only").check()
    assert 0 < page.locator(".mars-runs tbody tr:visible").count() < rows
    window.shot("history-runs")
    page.goto(page.url)
    expect(heads).to_have_count(4)


def test_a_shared_address_opens_what_was_open_and_its_settings_run_again(window: Window) -> None:
    page = window.page
    page.fill("#prompt textarea", "one two three")
    fill(page, "Seed", "7")
    sentence = compare(page, tokens=12)
    text = lane_text(page, 1)
    open_history(page)
    reopen_latest(page)
    wait_for(page, "done", STRIP)
    assert "comparison=" in page.url
    page.goto(page.url)
    assert wait_for(page, "done", STRIP) == sentence
    assert lane_text(page, 1, "history") == text
    expect(page.locator("#history-reader .mars-r-whatif")).to_be_visible()
    expect(page.locator("#history-reader .mars-r-replay")).to_be_visible()
    page.click("#history-again")
    expect(page.locator("#settings")).to_be_visible()
    open_settings(page)
    expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
    expect(page.locator("#prompt textarea")).to_have_value("one two three")
    compare(page, tokens=12)
    assert lane_text(page, 1) == text
    page.get_by_role("tab", name="Votes").click()
    expect(page).to_have_url(re.compile(r"\?tab=votes$"))
    page.get_by_role("tab", name="History").click()
    expect(page).to_have_url(re.compile("tab=history.*comparison="))
