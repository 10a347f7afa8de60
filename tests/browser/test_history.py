"""History on the real page: notes, deletion and its undo, runs side by side, a shared address, the report, settings loaded again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server, Window
from tests.browser.steps import compare, fill, lane_text, open_history, open_settings, reopen_latest, wait_for

pytestmark = pytest.mark.browser
STRIP = "#history-strip .mars-strip"
HOSTILE = "<img src=x onerror=window.ran=1>{{7*7}}</script>\u202eabc\x1b[31m"


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
    for count in (1, 2, 3):
        page.locator(".mars-history-run input:not(:checked)").first.click()
        expect(heads).to_have_count(count)
    rows = page.locator(".mars-runs tbody tr:visible").count()
    page.get_by_label("Differences only").check()
    assert 0 < page.locator(".mars-runs tbody tr:visible").count() < rows
    window.shot("history-runs")
    page.goto(page.url)
    expect(page.locator(".mars-runs thead th")).to_have_count(3)


def test_a_shared_address_opens_what_was_open(window: Window) -> None:
    page = window.page
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
    page.get_by_role("tab", name="Votes").click()
    expect(page).to_have_url(re.compile(r"\?tab=votes$"))
    page.get_by_role("tab", name="History").click()
    expect(page).to_have_url(re.compile("tab=history.*comparison="))


def test_no_tick_is_lost_while_the_list_is_drawn_anew(window: Window) -> None:
    page = window.page
    for seed in ("1", "2"):
        fill(page, "Seed", seed)
        compare(page, tokens=12)
    open_history(page)
    page.evaluate("[...document.querySelectorAll('.mars-history-run input')].slice(0, 4).forEach((box) => box.click())")
    expect(page.locator(".mars-runs thead th")).to_have_count(4)
    expect(page.locator(".mars-history-run input:checked")).to_have_count(4)


def test_a_report_needs_nothing_but_itself_and_runs_nothing_hostile(
    window: Window, server: Server, tmp_path: Path
) -> None:
    page = window.page
    page.fill("#prompt textarea", HOSTILE)
    compare(page, tokens=12)
    open_history(page)
    reopen_latest(page)
    href = page.locator("#history-open-downloads a", has_text="report.html").get_attribute("href")
    report = tmp_path / "report.html"
    report.write_bytes(page.request.get(f"{server.url}{href}").body())
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    expect(page.locator(".mars-lane .tok").first).to_be_visible()
    assert "<img src=x onerror=window.ran=1>{{7*7}}</script>" in page.inner_text("body")
    assert page.evaluate("window.ran") is None
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    window.shot("report")
    window.outside.clear()  # the file itself


def test_settings_are_loaded_into_compare_and_run_again(window: Window) -> None:
    page = window.page
    page.fill("#prompt textarea", "one two three")
    fill(page, "Seed", "7")
    compare(page, tokens=12)
    text = lane_text(page, 1)
    page.reload()
    page.wait_for_selector("#compare")
    open_history(page)
    reopen_latest(page)
    page.click("#history-again")
    expect(page.locator("#settings")).to_be_visible()
    open_settings(page)
    expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
    expect(page.locator("#prompt textarea")).to_have_value("one two three")
    compare(page, tokens=12)
    assert lane_text(page, 1) == text
