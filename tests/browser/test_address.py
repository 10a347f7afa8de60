"""A result has an address and a picture, settings have an address, and History finds runs again by
their models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Window
from tests.browser.steps import (
    PERMALINK,
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
    reopen_latest,
    wait_for,
)
from tests.serving import Server

pytestmark = pytest.mark.browser
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


def test_expressions_are_typed_and_checked_and_settings_are_an_address(
    window: Window, server: Server
) -> None:
    page, typed = window.page, "0.9 - 0.5*min(1, entropy/2)"
    page.fill("#prompt textarea", HOSTILE)
    fill(page, "Temperature", "0.5")
    card = page.locator('.mars-lane-settings [data-lane="1"]')
    theta, where = (card.get_by_label(name, exact=True) for name in ("θ", "where"))
    expect(theta).to_have_value("0.9")
    theta.fill("0.9 - surprise")
    expect(theta).to_have_attribute("aria-invalid", "true")
    expect(card).to_contain_text("theta is '0.9 - surprise': 'surprise' is unknown; it takes")
    press_compare(page)
    assert "'surprise' is unknown" in wait_for(page, "failed")
    open_settings(page)
    theta.fill(typed)
    where.fill("position < 9")
    expect(card.locator("[aria-invalid]")).to_have_count(0)
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
    page.goto(f"{server.url}?prompt=one&k=<script>window.ran=1</script>&temperature=0")
    assert "it must be a whole number" in wait_for(page, "failed")
    assert prompt_of(page) == "one" and page.evaluate("window.ran") is None


def side_by_side(page: Page) -> None:
    """Runs of two comparisons, which the address shows again."""
    heads = page.locator(".mars-runs thead th")
    page.locator(".mars-history-run input").first.click()
    expect(heads).to_have_count(1)
    held: list[Route] = []

    def last_first(route: Route) -> None:
        held.append(route)
        if len(held) == 3:
            answers = [(each, each.fetch()) for each in held]
            for each, answer in reversed(answers):
                each.fulfill(response=answer)

    # three at once, of which the first is answered last: none is lost while the list is drawn anew
    page.route("**/gradio_api/run/predict*", last_first, times=3)
    page.evaluate(
        "[...document.querySelectorAll('.mars-history-run input')].slice(1, 4).forEach((box) => box.click())"
    )
    expect(heads).to_have_count(4)
    expected(page, ".mars-history-run input:checked").to_have_count(4)
    compared = page.locator(".mars-runs tbody tr:visible")
    every = compared.count()
    page.get_by_label("Differences only").check()
    assert 0 < compared.count() < every
    page.goto(page.url)
    expect(heads).to_have_count(4)


def named_and_found(page: Page) -> None:
    """A comparison, which is also deleted and brought back."""
    rows, search = page.locator(".mars-history-row"), page.locator(".mars-search-text input")
    reopen_latest(page)
    for name, text in (("name", "the odd one"), ("tags", "odd, paper")):
        page.locator(f"#history-{name} input").first.fill(text)
    page.click("#history-save")
    expect(page.locator(".mars-history-name").first).to_have_text("the odd one")
    for text, count in (("ODD O", 1), ("nothing has this name", 0), ("odd o", 1)):
        search.fill(text)
        expect(rows).to_have_count(count)
    page.click("#history-delete")
    expect(rows).to_have_count(0)
    button(page, "Undo").click()
    expected(page, ".mars-history-name").to_have_text("the odd one")
    page.goto(page.url.partition("?")[0] + "?tab=history")


def test_history_compares_runs_names_models_and_groups(window: Window) -> None:
    """And the last of two searches counts while the first is answered."""
    page = window.page
    compare(page, tokens=12)
    fill(page, "Temperature", "0")
    compare(page, tokens=12)
    open_history(page)
    side_by_side(page)
    named_and_found(page)
    expect(page.locator(".mars-history-models").first).to_contain_text("→")
    page.locator("#history-search select[name=sort]").select_option(label="By model")
    expect(page.locator(".mars-history-model").first).to_contain_text("comparison")
    assert axe_problems(page) == {}
    page.locator(".mars-history-model button").first.click()
    expect(page).to_have_url(re.compile("target="))
    expected(page, ".mars-history-model").to_have_count(0)
    page.goto(page.url.partition("?")[0] + "?tab=history&sort=model")  # as a bookmark does
    expect(page.locator(".mars-history-model").first).to_be_visible()
    status, sort = (page.locator(f"#history-search select[name={of}]") for of in ("status", "sort"))
    sort.select_option(index=0)
    expect(page).to_have_url(re.compile(r"\?tab=history$"))
    with unanswered(page):
        status.select_option(label="failed")
        sort.select_option(label="By model")
    expect(page).to_have_url(re.compile(r"\?tab=history&status=failed&sort=model$"))


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
