"""What a visitor does, in words: used by the browser tests."""

from __future__ import annotations

import re
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Locator, LocatorAssertions, Page, expect

STRIP = "#compare-strip .mars-strip"
PERMALINK = re.compile(r"/\?comparison=[0-9a-f]{32}$")
# What a stock gradio 6.31 page violates by itself, and the marks of what is ours.
BASELINE = {"aria-prohibited-attr", "color-contrast", "image-redundant-alt"}
OURS = ("mars-", "mq-", "tok")
# a prompt whose run cannot end before it is stopped: tests/slow_runs.py
SLOW = "Once upon a time, slowly"


def expected(page: Page, selector: str) -> LocatorAssertions:
    """What is expected of the elements there."""
    return expect(page.locator(selector))


def button(within: Page | Locator, name: str) -> Locator:
    return within.get_by_role("button", name=name)


def open_settings(page: Page) -> None:
    """The settings of Compare; nothing on another tab."""
    drawer = page.locator("#settings")
    if drawer.is_visible() and drawer.get_attribute("open") is None:
        drawer.locator("summary").first.click()
        page.locator("#pair").wait_for()


def fill(page: Page, label: str, value: str) -> None:
    open_settings(page)
    field = page.get_by_label(label, exact=True)
    field.fill(value)
    field.blur()


def pick(page: Page, label: str, option: str) -> None:
    """An option of a select, or of Gradio's dropdown."""
    open_settings(page)
    field = page.get_by_label(label, exact=True)
    if field.evaluate("field => field.tagName") == "SELECT":
        field.select_option(label=option)
        return
    field.click()
    page.get_by_role("option", name=option, exact=True).click()


def press_compare(page: Page) -> None:
    """The line above the lanes loses its state until the page writes it anew, so that an earlier
    run's is not taken for this one's."""
    page.eval_on_selector(STRIP, "strip => { strip.dataset.state = 'pressed'; }")
    page.click("#compare")


def wait_for(page: Page, state: str, strip: str = STRIP) -> str:
    """Until the line above the lanes is in ``state``; returns its sentence."""
    page.wait_for_selector(f'{strip}[data-state="{state}"]')
    return page.inner_text(f"{strip} p").removesuffix(" Measure time")


def compare(page: Page, *, tokens: int = 48, state: str = "done") -> str:
    """A full comparison; returns its sentence."""
    fill(page, "Max new tokens", str(tokens))
    press_compare(page)
    return wait_for(page, state)


def lane_text(page: Page, lane: int, scope: str = "compare") -> str:
    return page.inner_text(f"#{scope}-lane-{lane} .mars-text")


def details_tab(page: Page, name: str, scope: str = "compare") -> None:
    """One of the tabs below the lanes."""
    page.locator(f"#{scope}-details").get_by_role("tab", name=name, exact=True).click()


def open_history(page: Page) -> None:
    page.get_by_role("tab", name="History").click()
    page.wait_for_selector(".mars-history-row")


def reopen_latest(page: Page) -> None:
    """Open the first row of History and wait for its result."""
    if not page.locator(".mars-history-row").first.is_visible():
        open_history(page)
    page.locator(".mars-history-row").first.click()
    expect(page.locator("#history-lane-0 .mars-lane")).not_to_have_attribute("data-state", "empty")


def axe_problems(page: Page, **options: Any) -> dict[str, list[str]]:
    """What axe finds beyond gradio's own, and where our own text cannot be read: HTML by the name
    of axe's rule."""
    violations = (
        Axe().run(page, options={"resultTypes": ["violations"]} | options).response["violations"]
    )
    violating = {each["id"]: [node["html"][:200] for node in each["nodes"]] for each in violations}
    hard = [
        html for html in violating.get("color-contrast", ()) if any(mark in html for mark in OURS)
    ]
    return {name: violating[name] for name in violating.keys() - BASELINE} | (
        {"color-contrast": hard} if hard else {}
    )
