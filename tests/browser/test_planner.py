"""When does it pay, on the real page: on the stored example at once, and again when a field changes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.steps import details_tab

pytestmark = pytest.mark.browser


def test_fields_draw_the_plan_again_and_stay_as_they_are(window: Window) -> None:
    page = window.page
    details_tab(page, "When does it pay?")
    verdict = page.locator("#compare-planner .mars-planner-verdict")
    expect(verdict).to_have_text(re.compile(r"Best is K = \d+.*as it was run: [\d.]+×\."))
    expect(page.locator("#compare-planner svg")).to_be_visible()
    batch = page.locator("#compare-planner [name=batch]")
    batch.focus()
    page.keyboard.press("End")
    expect(page.locator("#compare-planner output").nth(1)).to_have_text("1024")
    expect(verdict).to_have_text("It does not pay: no K is faster than decoding without drafts.")
    expect(batch).to_have_value("10")
    expect(batch).to_be_focused()
    with page.expect_download() as download:
        page.locator("#compare-planner").get_by_role("button", name="CSV").click()
    assert download.value.path().read_bytes().startswith(b"size,tokens_a_pass,speedup")
