"""The main road on the real page: compare, read, reopen, download; stop; close; bad values; hostile text; History."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from urllib.parse import urljoin

import pandas as pd
import pytest
from playwright.sync_api import Page, Route, expect

from mars_core.types import Status
from storage import RunStore
from tests.browser.conftest import PATIENCE_MS, Window
from tests.browser.steps import (
    SLOW,
    STRIP,
    compare,
    details_tab,
    fill,
    lane_text,
    open_history,
    open_settings,
    pick,
    press_compare,
    reopen_latest,
    wait_for,
)
from tests.serving import Server

pytestmark = pytest.mark.browser
HOSTILE = "<script>window.ran=1</script><img src=x onerror=window.ran=1>{{7*7}}${window.ran=1}`</textarea>\u202eabc\x1b[31m =HYPERLINK(1)"


def test_comparison_is_shown_kept_and_downloaded_alike(window: Window) -> None:
    """Its address opens it again, and its settings write the same texts again."""
    page, strip = window.page, "#history-strip .mars-strip"
    page.fill("#prompt textarea", "one two three")
    fill(page, "Seed", "7")
    sentence = compare(page)
    assert "Strict" in sentence and "τ" in sentence
    texts = [lane_text(page, lane) for lane in (0, 1)]
    assert all(len(page.query_selector_all(f"#compare-lane-{lane} .tok")) > 0 for lane in (0, 1))
    expect(page.locator("#compare-table tbody tr")).to_have_count(8)
    numbers = page.text_content("#compare-table")
    expect(page.locator("#compare-lane-1 .mars-check")).to_be_hidden()
    figures = {"Steps": 2, "Acceptance": 1, "Ratio": 1, "Shift": 2, "Tree": 1}
    for tab, count in figures.items():
        details_tab(page, tab)
        expect(page.locator("#compare-details .mars-figure[data-state=drawn]:visible")).to_have_count(count)
    details_tab(page, "Shift")
    for place in ("#compare-lane-0 .mars-check", "#compare-shift .mars-check"):
        expect(page.locator(place)).to_contain_text("Self-check: Strict shifted nothing")
        expect(page.locator(place)).to_have_attribute("data-state", "ok")
    expect(page.locator("#compare-shift-table tbody tr")).to_have_count(9)
    shift = page.text_content("#compare-shift-table")

    open_history(page)
    reopen_latest(page)
    assert wait_for(page, "done", strip) == sentence
    assert "comparison=" in page.url
    page.goto(page.url)
    assert wait_for(page, "done", strip) == sentence
    assert [lane_text(page, lane, "history") for lane in (0, 1)] == texts
    expect(page.locator("#history-reader .mars-r-whatif")).to_be_visible()
    expect(page.locator("#history-reader .mars-r-replay")).to_be_visible()
    assert page.text_content("#history-table") == numbers
    details_tab(page, "Shift", "history")
    expect(page.locator("#history-shift-table tbody tr")).to_have_count(9)
    assert page.text_content("#history-shift-table") == shift

    with page.expect_download() as download:
        page.locator("#history-open-downloads").get_by_role("link", name="runs.csv").click()
    runs = pd.read_csv(download.value.path())
    assert set(zip(runs["lane"], runs["rule"], strict=True)) == {(0, "strict"), (1, "mars")}
    link = page.locator("#history-open-downloads").get_by_role("link", name="tokens.csv")
    tokens = page.request.get(urljoin(page.url, link.get_attribute("href")))
    frame = pd.read_csv(io.BytesIO(tokens.body()))
    emitted = frame[frame["outcome"] != "rejected"]
    assert len(emitted) == int(runs["new_tokens"].sum())

    page.click("#history-again")
    expect(page.locator("#settings")).to_be_visible()
    open_settings(page)
    expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
    expect(page.locator("#prompt textarea")).to_have_value("one two three")
    compare(page)
    assert [lane_text(page, lane) for lane in (0, 1)] == texts
    page.get_by_role("tab", name="Votes").click()
    expect(page).to_have_url(re.compile(r"\?tab=votes$"))
    page.get_by_role("tab", name="History").click()
    expect(page).to_have_url(re.compile("tab=history.*comparison="))


def begin_slow_run(page: Page) -> None:
    """One that ends only when it is stopped; its first token is there."""
    page.wait_for_selector("#compare")
    page.fill("#prompt textarea", SLOW)
    for label, value in (("Temperature", "0"), ("K, drafted tokens", "1"), ("Max new tokens", "3000")):
        fill(page, label, value)
    press_compare(page)
    page.wait_for_selector(".mars-lane[data-state=running] .tok")


def test_stop_takes_the_place_of_compare_and_what_a_closed_tab_ran_is_saved_as_cancelled(
    window: Window, server: Server
) -> None:
    page = window.page
    expect(page.locator("#stop")).to_be_hidden()
    begin_slow_run(page)
    expect(page.locator("#compare")).to_be_hidden()
    expect(page.locator("#again")).to_be_hidden()
    expect(page.locator(".mars-card .mars-figure:visible")).to_have_count(0)  # those of the example are gone
    page.click("#stop")
    assert "Stopped" in wait_for(page, "cancelled")
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#compare")).to_be_visible()
    assert _latest_states(server)[-1] is Status.CANCELLED
    page.fill("#prompt textarea", "Once upon a time")
    compare(page, tokens=16)  # the next run works
    for leave in (page.reload, page.close):
        before = _count(server)
        begin_slow_run(page)
        leave()
        ends = time.monotonic() + PATIENCE_MS / 1000
        while time.monotonic() < ends and not (_count(server) > before and _latest_states(server)):
            time.sleep(0.2)
        assert _latest_states(server)[-1] is Status.CANCELLED


def test_bad_values_are_named_in_one_sentence_and_the_next_run_works(window: Window) -> None:
    page = window.page
    for label, value, said in (("K, drafted tokens", "0", "K is 0"), ("Seed", "", "seed is empty")):
        open_settings(page)
        kept = page.get_by_label(label, exact=True).input_value()
        fill(page, label, value)
        press_compare(page)
        expect(page.locator(f"{STRIP} p")).to_contain_text(said)
        assert wait_for(page, "failed").endswith(".")
        fill(page, label, kept)
    compare(page, tokens=8)
    page.fill("#prompt textarea", "a prompt that stays")
    pick(page, "Model pair", "Own folders or Hub ids")
    page.fill("#own-target textarea, #own-target input", "/nowhere/at/all")
    press_compare(page)
    assert "/nowhere/at/all" in wait_for(page, "failed")
    assert page.input_value("#prompt textarea") == "a prompt that stays"
    assert page.locator(STRIP).get_attribute("role") == "alert"


def test_hostile_text_is_shown_and_never_run_and_a_report_needs_nothing_but_itself(
    window: Window, tmp_path: Path
) -> None:
    page = window.page
    page.fill("#prompt textarea", HOSTILE)
    page.evaluate(
        "() => { const box = document.querySelector('#prompt textarea'); box.value += '\\ud800';"
        " box.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    compare(page, tokens=24)
    open_history(page)
    row = page.locator(".mars-history-prompt").first
    assert "<script>window.ran=1</script>" in row.inner_text() and "{{7*7}}${window.ran=1}" in row.inner_text()
    reopen_latest(page)
    expect(page.locator("#history-prompt textarea")).to_have_value(
        HOSTILE.replace("\u202e", "⟨U+202E⟩").replace("\x1b", "␛") + "⟨U+D800⟩"
    )
    assert page.evaluate("window.ran") is None
    assert page.locator("script:text('window.ran')").count() == 0
    href = page.locator("#history-open-downloads a", has_text="report.html").get_attribute("href")
    report = tmp_path / "report.html"
    report.write_bytes(page.request.get(urljoin(page.url, href)).body())
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(report.as_uri())
    expect(page.locator(".mars-lane .tok").first).to_be_visible()
    assert "<script>window.ran=1</script><img src=x onerror=window.ran=1>{{7*7}}" in page.inner_text("body")
    assert page.evaluate("window.ran") is None
    assert [url for url in requested if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    window.outside.clear()  # the file itself


def _count(server: Server) -> int:
    with RunStore(server.database) as store:
        return store.count()


def _latest_states(server: Server) -> list[Status]:
    """The states of the latest comparison's runs, in the order in which they ran."""
    with RunStore(server.database) as store:
        stored = store.load(str(store.comparisons(limit=1)["id"].iloc[0]))
        return [run.trace.status for run in sorted(stored.runs, key=lambda run: run.order)]


def test_runs_stand_side_by_side_and_the_address_shows_them_again(window: Window) -> None:
    """Before and after that, a comparison is named, found, deleted and brought back."""
    page = window.page
    rows, found = page.locator(".mars-history-row"), page.locator(".mars-search-text input")
    compare(page, tokens=12)
    fill(page, "Temperature", "0")
    compare(page, tokens=12)
    open_history(page)
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
    page.evaluate("[...document.querySelectorAll('.mars-history-run input')].slice(1, 4).forEach((box) => box.click())")
    expect(heads).to_have_count(4)
    expect(page.locator(".mars-history-run input:checked")).to_have_count(4)
    compared = page.locator(".mars-runs tbody tr:visible")
    every = compared.count()
    page.get_by_label("Differences only").check()
    assert 0 < compared.count() < every
    page.goto(page.url)
    expect(heads).to_have_count(4)

    reopen_latest(page)
    for name, text in (("name", "the odd one"), ("tags", "odd, paper")):
        page.locator(f"#history-{name} textarea, #history-{name} input").first.fill(text)
    page.click("#history-save")
    expect(page.locator(".mars-history-name").first).to_have_text("the odd one")
    for text, count in (("ODD O", 1), ("nothing has this name", 0), ("odd o", 1)):
        found.fill(text)
        expect(rows).to_have_count(count)
    page.click("#history-delete")
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".mars-history-name")).to_have_text("the odd one")
