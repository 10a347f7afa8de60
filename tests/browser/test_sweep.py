"""A sweep on the real page: run it, read it, open a pair, come back by its address; stop one."""

from __future__ import annotations

import csv
import io
import re
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Window
from tests.browser.steps import SLOW, wait_for

pytestmark = pytest.mark.browser
STRIP = "#sweep-strip .mars-strip"


def open_sweep_tab(page: Page) -> None:
    page.get_by_role("tab", name="Sweep", exact=True).first.click()
    page.wait_for_selector(STRIP)


def fill(page: Page, name: str, value: str) -> None:
    field = page.locator(f"#sweep-{name} textarea, #sweep-{name} input").first
    field.fill(value)
    field.blur()


def test_a_sweep_runs_is_kept_and_comes_back_by_its_address(window: Window) -> None:
    page = window.page
    open_sweep_tab(page)
    fill(page, "prompts", "Once upon a time\nThere was => 7")
    fill(page, "values", "0.8, 0.98")
    fill(page, "max", "12")
    page.get_by_role("button", name="Run the sweep").click()
    wait_for(page, "done", STRIP)
    rows = page.locator("#sweep-table tbody tr")
    expect(rows).to_have_count(2)
    expect(page.locator("#sweep-tradeoff .scatterlayer .point")).not_to_have_count(0)
    window.shot("sweep")
    link = page.get_by_role("link", name="sweep.csv").first.get_attribute("href")
    table = list(csv.DictReader(io.StringIO(page.request.get(urljoin(page.url, link)).text())))
    assert [row["value"] for row in table] == ["0.8", "0.98"]
    expect(page).to_have_url(re.compile("sweep=[0-9a-f]{32}"))
    page.goto(page.url)
    wait_for(page, "done", STRIP)
    expect(page.locator("#sweep-table tbody tr")).to_have_count(2)


def test_an_absurd_sweep_is_refused_in_one_sentence_and_a_stopped_one_keeps_what_it_has(window: Window) -> None:
    page = window.page
    open_sweep_tab(page)
    fill(page, "values", "0:1:0.0001")
    page.get_by_role("button", name="Run the sweep").click()
    assert wait_for(page, "failed", STRIP).endswith(".")
    fill(page, "prompts", SLOW)
    fill(page, "temperatures", "0")
    fill(page, "values", "0.5:0.99:0.01")
    fill(page, "max", "32")
    page.get_by_role("button", name="Run the sweep").click()
    page.wait_for_selector(f'{STRIP}[data-state="running"]')
    page.locator("#sweep-table tbody tr").first.wait_for()
    page.get_by_role("button", name="Stop", exact=True).locator("visible=true").click()
    assert "topped" in wait_for(page, "cancelled", STRIP)
    expect(page.locator("#sweep-table tbody tr").first).to_be_visible()
