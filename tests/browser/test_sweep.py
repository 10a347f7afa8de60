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


def fill(page: Page, name: str, value: str) -> None:
    field = page.locator(f"#sweep-{name} textarea, #sweep-{name} input").first
    field.fill(value)
    field.blur()


@pytest.mark.parametrize("start", [("?tab=sweep", STRIP)])
def test_a_sweep_runs_is_kept_and_comes_back_by_its_address(window: Window) -> None:
    """After an absurd one, which is refused in one sentence; one that is stopped keeps what it has."""
    page = window.page
    run = page.get_by_role("button", name="Run the sweep")
    rows = page.locator("#sweep-table tbody tr")
    fill(page, "values", "0:1:0.0001")
    run.click()
    assert wait_for(page, "failed", STRIP).endswith(".")

    fill(page, "prompts", "Once upon a time\nThere was => 7")
    fill(page, "values", "0.8, 0.98")
    fill(page, "max", "12")
    run.click()
    wait_for(page, "done", STRIP)
    expect(rows).to_have_count(2)
    expect(page.locator("#sweep-tradeoff .scatterlayer .point")).not_to_have_count(0)
    link = page.get_by_role("link", name="sweep.csv").first.get_attribute("href")
    table = list(csv.DictReader(io.StringIO(page.request.get(urljoin(page.url, link)).text())))
    assert [row["value"] for row in table] == ["0.8", "0.98"]
    expect(page).to_have_url(re.compile("sweep=[0-9a-f]{32}"))
    page.goto(page.url)
    wait_for(page, "done", STRIP)
    expect(rows).to_have_count(2)

    fill(page, "prompts", SLOW)
    fill(page, "temperatures", "0")
    fill(page, "values", "0.5:0.99:0.01")
    fill(page, "max", "32")
    run.click()
    wait_for(page, "running", STRIP)
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Stop", exact=True).locator("visible=true").click()
    assert "topped" in wait_for(page, "cancelled", STRIP)
    expect(rows).to_have_count(50)
