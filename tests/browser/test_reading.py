"""Reading a result on the real page: the example, another θ, files, keyboard only; light and dark,
narrow and wide, axe."""

from __future__ import annotations

import re
from functools import partial

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import Window
from tests.browser.steps import (
    axe_problems,
    button,
    compare,
    details_tab,
    expected,
    fill,
    wait_for,
)

pytestmark = pytest.mark.browser
TITLES = ["Strict", "MARS θ = 0.9", "MARS θ = 0.5"]
PREDICT = "**/gradio_api/run/predict*"
TOP = "node => node.getBoundingClientRect().top + window.scrollY"


def hold(late: list[Route], route: Route) -> None:
    """Hold back what is asked with the settings and their lanes."""
    values = route.request.post_data_json["data"][-1]
    if "lanes" in str(values):
        late.append(route)
    else:
        route.continue_()


def test_a_comparison_needs_no_mouse_and_streaming_does_not_move_the_page(window: Window) -> None:
    """Nor does reading it: another θ, an alternative and figures as files are then had by the
    mouse."""
    page = window.page
    expected(page, ".mars-chip").to_have_text("CPU, float32")  # the page is drawn
    page.keyboard.press("Tab")
    expected(page, "#prompt textarea").to_be_focused()
    page.keyboard.press("Tab")
    expected(page, "#compare").to_be_focused()

    fill(page, "Max new tokens", "24")
    text, popover = (
        page.locator("#compare-lane-1 .mars-text"),
        page.locator("#compare-lane-1 .mars-pop"),
    )
    page.locator("#settings summary").first.click()
    before = text.evaluate(TOP)
    # what is said of the settings after this run comes only when a lane was added
    page.route(PREDICT, partial(hold, late := list[Route]()))
    page.locator("#compare").focus()
    page.keyboard.press("Enter")
    wait_for(page, "done")
    assert abs(before - text.evaluate(TOP)) <= 1
    text.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(popover).to_contain_text("Probability covered")
    assert "position 1" in page.inner_text("#compare-lane-1 .mars-sr")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expected(page, "#compare-lane-1 .mars-pop.pinned").to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.mars-pop') !== null")
    page.keyboard.press("Escape")
    expect(popover).to_be_hidden()

    details_tab(page, "Acceptance")
    figure = page.locator("#compare-details .mars-figure[data-state=drawn]:visible")
    for name, beginning in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"lane,rule,depth")):
        with page.expect_download() as download:
            button(figure, f"as {name}").click()
        assert download.value.suggested_filename == f"mars-acceptance.{name.lower()}"
        assert download.value.path().read_bytes().startswith(beginning)

    reader = page.locator("#compare-reader")
    reader.get_by_role("slider", name="What would θ change").fill("0.5")
    expect(reader.locator(".mars-r-counts span").first).to_contain_text("Strict would keep")
    button(reader, "Run with this θ").click()
    expected(page, "#compare-lane-2 .mars-lane").to_have_attribute("data-state", "completed")
    wait_for(page, "done")
    assert late
    for each in late:
        each.continue_()
    page.unroute(PREDICT)
    assert [
        page.inner_text(f"#compare-lane-{lane} .mars-lane-title") for lane in range(3)
    ] == TITLES

    # both clicks before the server has answered the first, and before Gradio has seen the end of
    # the run
    choose = "lane => { lane.querySelectorAll('.tok')[5].click(); lane.querySelector('.mars-pop-top .mars-continue').click(); }"
    page.locator("#compare-lane-0").evaluate(choose)
    expected(page, "#compare-lane-3 .mars-lane").to_have_attribute("data-state", "completed")
    assert "which was chosen at position 5" in wait_for(page, "done")
    expected(page, "#compare-lane-3 .tok.given").to_have_count(6)
    expected(page, "#compare-lane-3 .tok").to_have_count(24)
    expected(page, "#compare-lane-3 .mars-text").to_be_visible()
    button(reader, "Run with this θ").click()
    assert "All 4 lanes are in use" in wait_for(page, "failed")


EARLY = """
const send = window.fetch, asked = window.asked = [], early = window.early = [];
window.fetch = (address, ...more) => {
  const drawn = document.querySelectorAll("#compare-lane-1 .tok").length;
  if (String(address.url ?? address).includes("/run/predict")) asked.push(drawn);
  return send(address, ...more);
};
const look = () => {
  const strip = document.querySelector("#compare-strip");
  const prompt = document.querySelector("#prompt textarea");
  if (strip && !prompt) early.push(getComputedStyle(strip).visibility);
  requestAnimationFrame(look);
};
look();"""


def test_the_example_is_seen_with_the_prompt_above_it_read_planned_with_and_run_with_another_theta(
    window: Window,
) -> None:
    """So that the page does not move while it is drawn; then the device is requested."""
    page = window.page
    page.add_init_script(EARLY)
    page.reload()
    expected(page, "#compare-strip").to_be_visible()
    assert "visible" not in page.evaluate("window.early")
    expected(page, ".mars-chip").to_have_text("CPU, float32")
    assert page.evaluate("window.asked")[0] > 0
    details_tab(page, "Margins")
    plot, text = (
        page.locator("#compare-margins-2 .mars-plot"),
        page.locator("#compare-lane-1 .mars-text"),
    )
    expected(page, "#compare-margins-2 .mars-figure[data-state=drawn]").to_be_visible()
    shapes = "node => (node.layout.shapes || []).map(({ x0, y0 }) => [x0 + 0.5, y0 + 0.5])"
    framed = plot.evaluate(shapes)
    text.locator(".tok").nth(37).hover()
    expected(page, "#compare-lane-1 .mars-pop").to_be_visible()
    assert plot.evaluate(shapes) == [*framed, [5, 1]]
    page.mouse.move(0, 0)
    expected(page, "#compare-lane-1 .mars-pop").to_be_hidden()
    assert plot.evaluate(shapes) == framed
    plot.scroll_into_view_if_needed()
    cells = plot.locator(".nsewdrag").first.bounding_box()
    assert cells
    page.mouse.move(cells["x"] + cells["width"] * 5.5 / 32, cells["y"] + 18 * 1.5)
    expect(text.locator(".tok.pointed")).to_have_attribute("data-i", "37")

    details_tab(page, "When does it pay?")
    verdict = page.locator("#compare-planner .mars-planner-verdict")
    expect(verdict).to_have_text(
        re.compile(r"Best is K = \d+.*as it was run: expected [\d.]+× (faster|slower) with")
    )
    expected(page, "#compare-planner .mars-figure[data-state=drawn]").to_be_visible()
    batch = page.locator("#compare-planner [name=batch]")
    batch.focus()
    page.keyboard.press("End")
    expect(page.locator("#compare-planner output").nth(1)).to_have_text("1024")
    expect(verdict).to_have_text("It does not pay: no K is faster than decoding without drafts.")
    expect(batch).to_have_value("10")
    expect(batch).to_be_focused()
    with page.expect_download() as download:
        button(page.locator("#compare-planner"), "CSV").click()
    assert download.value.path().read_bytes().startswith(b"size,tokens_a_pass,speedup")

    fill(page, "Max new tokens", "12")
    page.locator("#compare-reader").get_by_role("slider", name="What would θ change").fill("0.5")
    button(page, "Run with this θ").click()
    wait_for(page, "done")
    assert [
        page.inner_text(f"#compare-lane-{lane} .mars-lane-title") for lane in range(3)
    ] == TITLES


# All that a theme changes.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
TABS = {
    "Compare": "#compare-lane-0 .tok",
    "Quality": "#study-list",
    "History": ".mars-history-item",
    "Votes": "#votes-write",
    "About": ".mars-about",
}


def test_axe_finds_nothing_beyond_what_gradio_has_on_any_tab_and_dark_is_remembered(
    window: Window,
) -> None:
    """As is that the tour was taken. In light colours the other tabs are read by axe where they have
    something to show: test_address.py and test_quality.py. Narrow windows need no sideways scrolling; wide ones have the
    lanes side by side."""
    page = window.page
    opener, tour = page.locator(".mars-tour-open"), page.get_by_role("dialog", name="Tour")
    expect(opener).to_have_text("New here?")
    opener.click()
    for number in range(1, 6):
        expect(tour).to_contain_text(f"{number} of 5")
        expected(page, ".mars-toured").to_be_in_viewport()
        page.keyboard.press("Enter")
    expect(tour).to_be_hidden()
    expected(page, ".mars-toured").to_have_count(0)

    page.set_viewport_size({"width": 360, "height": 780})
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    compare(page)
    expect(page.locator("#compare-details .mars-table:visible").first).to_be_visible()
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    page.set_viewport_size({"width": 2560, "height": 1300})
    left, right = (page.locator(f"#compare-lane-{lane}").bounding_box() for lane in (0, 1))
    assert left and right and left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]

    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("tab", name="About", exact=True).click()
    page.locator(TABS["About"]).first.wait_for()
    assert axe_problems(page) == {}
    button(page, "Switch between light and dark").click()
    expected(page, "body.dark").to_be_attached()
    for tab, selector in TABS.items():
        page.get_by_role("tab", name=tab, exact=True).first.click()
        page.locator(selector).first.wait_for()
        assert axe_problems(page, **COLOURS) == {}, tab
    page.reload()
    expected(page, "body.dark").to_be_attached()
    expect(opener).to_have_text("Tour")
