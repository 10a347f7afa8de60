"""A result has an address and a picture, settings have an address, and History finds runs again by
their models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, ViewportSize, expect

from tests.browser.conftest import Window
from tests.browser.steps import (
    SLOW,
    STRIP,
    axe_problems,
    button,
    compare,
    expected,
    fill,
    lane_text,
    open_history,
    open_settings,
    press_compare,
    wait_for,
)
from tests.serving import Server

pytestmark = pytest.mark.browser
PERMALINK = re.compile(r"/\?comparison=[0-9a-f]{32}$")
REQUESTS = "**/gradio_api/run/**"  # of events that are not queued
HOSTILE = "<img src=x onerror=window.ran=1> one two\u202e three"


def prompt_of(page: Page) -> str:
    return page.input_value("#prompt textarea")


def test_a_result_has_an_address_that_back_and_reload_show_again(window: Window) -> None:
    page = window.page
    page.fill("#prompt textarea", "one two three")
    fill(page, "Seed", "7")
    compare(page, tokens=12)
    expect(page).to_have_url(PERMALINK)
    first, text = page.url, lane_text(page, 1)
    page.fill("#prompt textarea", "four five")
    compare(page, tokens=12)
    expect(page).not_to_have_url(first)
    expect(page).to_have_url(PERMALINK)
    second = page.url

    page.go_back()
    expect(page).to_have_url(first)
    expected(page, "#prompt textarea").to_have_value("one two three")
    expected(page, "#compare-lane-1 .mars-text").to_have_text(text)
    fill(page, "Seed", "9")
    page.reload()
    assert wait_for(page, "done")
    expected(page, "#prompt textarea").to_have_value("one two three")
    open_settings(page)
    expect(page.get_by_label("Seed", exact=True)).to_have_value("9")  # as it was left
    expected(page, "#compare-lane-1 .mars-text").to_have_text(text)

    page.get_by_role("tab", name="Votes").click()
    expect(page).to_have_url(re.compile(r"\?tab=votes$"))
    page.get_by_role("tab", name="Compare").click()
    expect(page).to_have_url(first)
    page.goto(second)
    assert wait_for(page, "done")
    expected(page, "#prompt textarea").to_have_value("four five")
    page.reload()  # what was entered comes back with it, and is what the result is of
    assert wait_for(page, "done")
    expected(page, "#prompt textarea").to_have_value("four five")
    expected(page, ".mars-request").to_be_hidden()
    link = button(page.locator("#compare-share"), "Copy link")
    expect(link).to_have_attribute("value", second)
    link.focus()
    page.keyboard.press("Enter")
    expected(page, "#compare-share [role=status]").to_contain_text("Cop")


def test_a_reload_during_a_run_loses_nothing(window: Window) -> None:
    page = window.page
    page.fill("#prompt textarea", SLOW)
    fill(page, "Max new tokens", "500")
    press_compare(page)
    page.wait_for_selector(".tok >> nth=3")
    expect(page).to_have_url(PERMALINK)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.reload()
    assert "Stopped." in wait_for(page, "cancelled")
    expect(page).to_have_url(PERMALINK)
    assert prompt_of(page) == SLOW
    open_settings(page)
    expect(page.get_by_label("Max new tokens", exact=True)).to_have_value("500")
    expected(page, "#settings [data-lane]").to_have_count(2)
    assert said == []


def test_expressions_are_typed_and_checked_and_settings_are_an_address(
    window: Window, server: Server
) -> None:
    page, typed = window.page, "0.9 - 0.5*min(1, entropy/2)"
    page.fill("#prompt textarea", HOSTILE)
    fill(page, "Temperature", "0.5")
    card = page.locator('.mars-lane-settings [data-lane="1"]')
    theta, where = (card.get_by_label(name, exact=True) for name in ("θ", "where"))
    card.get_by_role("button", name="θ as an expression").click()
    expect(theta).to_have_attribute("type", "text")
    expect(theta).to_have_value("0.9")
    theta.fill("0.9 - surprise")
    expect(theta).to_have_attribute("aria-invalid", "true")
    expect(card).to_contain_text("theta is '0.9 - surprise': 'surprise' is unknown; it takes")
    press_compare(page)
    assert "'surprise' is unknown" in wait_for(page, "failed")
    open_settings(page)
    theta.fill(typed)
    card.get_by_role("button", name="where as an expression").click()
    where.fill("position < 9")
    expect(theta).to_have_attribute("aria-invalid", "false")
    page.click("#link")
    expect(page).to_have_url(re.compile("prompt=.*rule=strict&rule=mars"))
    page.goto(page.url)
    expect(page.locator(f"{STRIP} p").first).to_contain_text("Settings from the address")
    assert prompt_of(page) == HOSTILE
    open_settings(page)
    expect(page.get_by_label("Temperature", exact=True)).to_have_value("0.5")
    expect(where).to_have_value("position < 9")
    compare(page, tokens=8)
    expect(page.locator("#compare-lane-1")).to_contain_text(f"θ = {typed}")
    expect(page).to_have_url(PERMALINK)
    page.goto(page.url)
    assert wait_for(page, "done")
    open_settings(page)
    expect(theta).to_have_value(typed)
    assert axe_problems(page) == {}
    card.get_by_role("button", name="θ as an expression").click()
    expect(theta).to_have_attribute("type", "number")
    page.goto(f"{server.url}?prompt=one&k=<script>window.ran=1</script>&temperature=0")
    assert "it must be a whole number" in wait_for(page, "failed")
    assert prompt_of(page) == "one" and page.evaluate("window.ran") is None


@pytest.mark.parametrize("size", [ViewportSize(width=1280, height=900)])
def test_a_picture_of_a_result_is_drawn_here_and_hostile_text_is_text(
    window: Window, tmp_path: Path
) -> None:
    page = window.page
    page.fill("#prompt textarea", HOSTILE * 20)
    compare(page, tokens=100)
    heights = []
    for lanes in (2, 1):
        with page.expect_download() as download:
            button(page.locator("#compare-share"), "Share picture").click()
        assert re.fullmatch(r"mars-[0-9a-f]{8}\.png", download.value.suggested_filename)
        download.value.save_as(tmp_path / "picture.png")
        head = (tmp_path / "picture.png").read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = (int.from_bytes(head[at : at + 4], "big") for at in (16, 20))
        assert width == 2400 and 400 < height < 3000
        heights.append(height)
        if lanes == 2:
            expected(page, "#compare-share [role=status]").to_have_text("The picture was saved.")
            open_settings(page)
            page.locator("#settings #remove-lane-1").click()
            expected(page, "#rule-1").to_be_hidden()
            picture = page.locator("#compare-share [data-picture]")
            before = picture.get_attribute("data-picture") or ""
            page.fill("#prompt textarea", "one")
            compare(page, tokens=8)
            expect(picture).not_to_have_attribute("data-picture", before)
    assert heights[0] > heights[1]  # a long text is cut, and takes more room than a short one
    assert page.evaluate("window.ran") is None


def test_history_names_models_groups_draws_and_keeps_views(window: Window) -> None:
    """And the last of two searches counts while the first is answered."""
    page = window.page
    compare(page, tokens=8)
    open_history(page)
    expect(page.locator(".mars-history-models").first).to_contain_text("→")
    button(page.locator("#history-chart"), "Draw").click()
    figure = page.locator("#history-plot")
    expect(figure.locator(".mars-figure[data-state=drawn]")).to_be_visible()
    page.locator("#history-chart select").nth(1).select_option(label="Perplexity")
    expect(figure.locator("figcaption")).to_contain_text("Perplexity against τ, tokens per step")

    page.locator("#history-search select[name=sort]").select_option(label="By model")
    expect(page.locator(".mars-history-model").first).to_contain_text("comparison")
    button(page, "Save this view in this browser").click()
    page.locator(".mars-history-model button").first.click()
    expect(page).to_have_url(re.compile("target="))
    expected(page, ".mars-history-model").to_have_count(0)
    page.reload()
    button(page, "Show the saved view By model").click()
    expect(page).to_have_url(re.compile(r"\?tab=history&sort=model$"))
    expect(page.locator(".mars-history-model").first).to_be_visible()
    assert axe_problems(page) == {}
    button(page, "Remove the saved view By model").click()
    expect(button(page, "Show the saved view By model")).to_have_count(0)

    status, sort = (page.locator(f"#history-search select[name={of}]") for of in ("status", "sort"))
    sort.select_option(index=0)
    expect(page).to_have_url(re.compile(r"\?tab=history$"))
    with unanswered(page):
        status.select_option(label="failed")
        sort.select_option(label="By model")
    expect(page).to_have_url(re.compile(r"\?tab=history&status=failed&sort=model$"))
    button(page, "Save this view in this browser").click()
    status.select_option(label="Any status")
    expect(page).to_have_url(re.compile(r"\?tab=history&sort=model$"))
    button(page, "Save this view in this browser").click()
    with unanswered(page):
        button(page, "Show the saved view failed, By model").click()
        button(page, "Show the saved view By model").click()
    expect(page.locator(".mars-history-model").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?tab=history&sort=model$"))
    expect(status).to_have_value("")


@contextmanager
def unanswered(page: Page) -> Iterator[None]:
    """What the page requests meanwhile is answered at the end."""
    waiting: list[Route] = []
    ended = False
    page.route(REQUESTS, lambda each: each.continue_() if ended else waiting.append(each))
    yield
    while not waiting:
        page.wait_for_timeout(10)
    ended = True
    for each in waiting:
        each.continue_()
