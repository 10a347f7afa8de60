"""Reading a result on the real page: continue from an alternative, run with another θ, replay, keyboard only."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Server, Window
from tests.browser.steps import SLOW, compare, details_tab, fill, lane_text, wait_for

pytestmark = pytest.mark.browser


def test_an_alternative_is_continued_in_a_new_lane(window: Window) -> None:
    page = window.page
    compare(page, tokens=24)
    page.locator("#compare-lane-0 .tok").nth(5).click()
    choice = page.locator("#compare-lane-0 .mars-pop .mars-pop-top .mars-continue").first
    choice.click()
    expect(page.locator("#compare-lane-2 .mars-lane")).to_have_attribute("data-state", "completed")
    assert "was chosen instead of" in wait_for(page, "done")
    expect(page.locator("#compare-lane-2 .tok.given")).to_have_count(6)
    assert len(page.query_selector_all("#compare-lane-2 .tok")) == 24
    window.shot("continued")


def test_another_theta_is_foreseen_and_then_run(window: Window) -> None:
    page = window.page
    compare(page, tokens=24)
    reader = page.locator("#compare-reader")
    reader.get_by_role("slider", name="What would θ change").fill("0.5")
    expect(reader.locator(".mars-r-count").first).to_contain_text("drafts")
    window.shot("what-if")
    reader.get_by_role("button", name="Run with this θ").click()
    expect(page.locator("#compare-lane-2 .mars-lane")).to_have_attribute("data-state", "completed")
    wait_for(page, "done")
    titles = [page.inner_text(f"#compare-lane-{lane} .mars-lane-title") for lane in range(3)]
    assert titles == ["Strict", "MARS θ = 0.9", "MARS θ = 0.5"]


def test_another_theta_of_the_example_runs_it_beside_the_chosen_lanes(window: Window) -> None:
    page = window.page
    fill(page, "Max new tokens", "12")
    page.locator("#compare-reader").get_by_role("slider", name="What would θ change").fill("0.5")
    page.get_by_role("button", name="Run with this θ").click()
    wait_for(page, "done")
    titles = [page.inner_text(f"#compare-lane-{lane} .mars-lane-title") for lane in range(3)]
    assert titles == ["Strict", "MARS θ = 0.9", "MARS θ = 0.5"]


def test_a_comparison_needs_no_mouse(window: Window) -> None:
    page = window.page
    fill(page, "Max new tokens", "16")
    page.locator("#prompt textarea").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "compare":
            break
    page.keyboard.press("Enter")
    wait_for(page, "done")
    page.locator("#compare-lane-1 .mars-text").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.locator("#compare-lane-1 .mars-pop.pinned")).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.mars-pop') !== null")
    page.keyboard.press("Escape")
    expect(page.locator("#compare-lane-1 .mars-pop")).to_be_hidden()


def test_a_reload_while_it_runs_leaves_a_page_that_works(window: Window, server: Server) -> None:
    page = window.page
    page.fill("#prompt textarea", SLOW)
    fill(page, "Max new tokens", "3000")
    page.click("#compare")
    page.wait_for_selector(".mars-lane[data-state=running] .tok")
    page.goto(server.url)
    page.wait_for_selector("#compare")
    compare(page, tokens=8)
    assert lane_text(page, 0)


def test_a_figure_is_saved_as_png_svg_and_csv(window: Window) -> None:
    page = window.page
    compare(page, tokens=24)
    details_tab(page, "Acceptance")
    figure = page.locator("#compare-details .mars-figure[data-state=drawn]:visible")
    for name, beginning in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"lane,rule,depth")):
        with page.expect_download() as download:
            figure.get_by_role("button", name=f"as {name}").click()
        assert download.value.suggested_filename == f"mars-acceptance.{name.lower()}"
        assert download.value.path().read_bytes().startswith(beginning)


def test_text_and_margin_map_point_at_each_other(window: Window) -> None:
    page = window.page
    plot, text = page.locator("#compare-margins-2 .mars-plot"), page.locator("#compare-lane-1 .mars-text")
    expect(page.locator("#compare-margins-2 .mars-figure[data-state=drawn]")).to_be_visible()
    shapes = "node => (node.layout.shapes || []).map(({ x0, y0 }) => [x0 + 0.5, y0 + 0.5])"
    framed = plot.evaluate(shapes)
    text.locator(".tok").nth(37).hover()
    expect(page.locator("#compare-lane-1 .mars-pop")).to_be_visible()
    assert plot.evaluate(shapes) == [*framed, [5, 1]]
    page.mouse.move(0, 0)
    expect(page.locator("#compare-lane-1 .mars-pop")).to_be_hidden()
    assert plot.evaluate(shapes) == framed
    cells = plot.locator(".nsewdrag").first.bounding_box()
    assert cells
    page.mouse.move(cells["x"] + cells["width"] * 5.5 / 32, cells["y"] + 18 * 1.5)
    expect(text.locator(".tok.pointed")).to_have_attribute("data-i", "37")
