"""How the page looks and is reached: light and dark, narrow and wide, keyboard, axe."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.steps import axe_problems, compare

pytestmark = pytest.mark.browser
# All that a theme changes.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
TABS = {
    "Compare": "#compare-lane-0 .tok", "Sweep": "#sweep-run", "Quality": "#study-list", "History": ".mars-history-item",
    "Votes": "#votes-write", "About": ".mars-about",
}  # fmt: skip


def test_axe_finds_nothing_beyond_gradios_own_on_any_tab_and_dark_is_remembered(window: Window) -> None:
    """As is that the tour was taken. Narrow windows need no sideways scrolling; wide ones have the lanes side by side."""
    page = window.page
    opener, tour = page.locator(".mars-tour-open"), page.get_by_role("dialog", name="Tour")
    expect(opener).to_have_text("New here?")
    opener.click()
    for number in range(1, 5):
        expect(tour).to_contain_text(f"{number} of 4")
        expect(page.locator(".mars-toured")).to_be_in_viewport()
        page.keyboard.press("Enter")
    expect(tour).to_be_hidden()
    expect(page.locator(".mars-toured")).to_have_count(0)

    page.set_viewport_size({"width": 360, "height": 780})
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    compare(page)
    expect(page.locator(".mars-card .mars-figure[data-state=drawn]:visible").first).to_be_visible()
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    page.set_viewport_size({"width": 2560, "height": 1300})
    left, right = (page.locator(f"#compare-lane-{lane}").bounding_box() for lane in (0, 1))
    assert left and right and left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]

    page.set_viewport_size({"width": 1280, "height": 900})
    for theme, options in (("light", {}), ("dark", COLOURS)):
        if theme == "dark":
            page.get_by_role("button", name="Switch between light and dark").click()
            expect(page.locator("body.dark")).to_be_attached()
        for tab, shown in TABS.items():
            page.get_by_role("tab", name=tab, exact=True).first.click()
            page.locator(shown).first.wait_for()
            assert axe_problems(page, **options) == {}, (theme, tab)
    page.reload()
    expect(page.locator("body.dark")).to_be_attached()
    expect(opener).to_have_text("Tour")
