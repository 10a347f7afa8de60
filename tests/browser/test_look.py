"""How the page looks and is reached: light and dark, narrow and wide, keyboard, axe."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import ViewportSize, expect

from tests.browser.conftest import Window
from tests.browser.steps import compare

pytestmark = pytest.mark.browser
# What a stock gradio 6.31 page violates by itself.
BASELINE = {"aria-prohibited-attr", "color-contrast", "image-redundant-alt"}
EVERYTHING = {"resultTypes": ["violations"]}
COLOURS = EVERYTHING | {
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
}  # all that a theme changes
TABS = {
    "Compare": "#compare-lane-0 .tok", "Sweep": "#sweep-run", "Quality": "#study-list", "History": ".mars-history-item",
    "Votes": "#votes-write", "About": ".mars-about",
}  # fmt: skip


@pytest.mark.parametrize("size", [ViewportSize(width=360, height=780)])
def test_a_narrow_window_needs_no_sideways_scrolling_and_a_wide_one_sets_lanes_side_by_side(window: Window) -> None:
    page = window.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    compare(page)
    expect(page.locator(".mars-card .mars-figure[data-state=drawn]:visible").first).to_be_visible()
    window.shot("narrow")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size({"width": 2560, "height": 1300})
    left, right = (page.locator(f"#compare-lane-{lane}").bounding_box() for lane in (0, 1))
    assert left and right and left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    window.shot("wide")


def test_axe_finds_nothing_beyond_gradios_own_on_any_tab_and_dark_is_remembered(window: Window) -> None:
    page = window.page
    compare(page)
    for theme in ("light", "dark"):
        if theme == "dark":
            page.get_by_role("button", name="Switch between light and dark").click()
            expect(page.locator("body.dark")).to_be_attached()
            window.shot("dark")
        for tab, shown in TABS.items():
            page.get_by_role("tab", name=tab, exact=True).first.click()
            page.locator(shown).first.wait_for()
            options = COLOURS if theme == "dark" else EVERYTHING
            found = {
                violation["id"]: violation for violation in Axe().run(page, options=options).response["violations"]
            }
            new = {name: [node["html"][:200] for node in found[name]["nodes"]] for name in found.keys() - BASELINE}
            assert new == {}, (theme, tab)
            contrast = [node["html"][:200] for node in found.get("color-contrast", {"nodes": []})["nodes"]]
            assert [html for html in contrast if "mars-" in html or "tok" in html] == [], (theme, tab)
    page.reload()
    expect(page.locator("body.dark")).to_be_attached()


def test_the_tour_shows_four_places_and_is_offered_once(window: Window) -> None:
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
    page.reload()
    page.wait_for_selector("#compare")
    expect(opener).to_have_text("Tour")
