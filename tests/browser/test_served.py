"""A server as a lane: its key stays in this browser, for its own address; a saved answer asks nobody."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import Window
from tests.browser.steps import compare, fill, lane_text, open_settings, pick
from tests.streaming_server import chunk, position, stream_events

KEY = "sk-canary-31415"
ANSWER = '{"model": "far", "choices": [{"text": "B", "finish_reason": "stop"}]}'
KEPT = "JSON.stringify({...localStorage})"


def told(page: Page) -> str:
    """All that the page holds and shows but the field of the key."""
    return page.evaluate(
        "document.body.innerHTML + document.querySelector('#compare-settings .mars-settings').values + location"
    )


def test_a_served_lane_streams_and_its_key_is_the_browsers(window: Window) -> None:
    page = window.page
    answer = [
        chunk("A", position("A", -0.7, The=-0.9)),
        chunk(" fox", position(" fox", -0.1, a=-3.0)),
    ]
    with stream_events(*answer, chunk("", finish="stop")) as server:
        open_settings(page)
        pick(page, "Lane 2 rule", "Served model")
        fill(page, "Server", server.url)
        page.locator("#server-key").fill(KEY)
        page.locator("#server-key").press("Tab")
        compare(page)
        assert lane_text(page, 1) == "A fox"
        assert {each[1] for each in server.requests} == {f"Bearer {KEY}"}
        note = page.locator("#compare-lane-1")
        expect(note).to_contain_text("would keep a drafted runner-up at 1 of 2 positions")
        expect(page.locator("#compare-lane-1 .near")).to_have_text("A")
        page.locator("#compare-lane-1 .tok").first.click()
        expect(page.locator(".mars-pop-story").last).to_contain_text(
            "it does not say what was drafted"
        )
        expect(page.locator(".mars-pop .mars-pill")).to_have_count(0)
        page.keyboard.press("Escape")
        assert KEY not in told(page) and KEY in page.evaluate(KEPT)
        open_settings(page)
        fill(page, "Server", "http://other.example")
        expect(page.locator("#server-key")).to_have_value("")
        fill(page, "Server", server.url)
        expect(page.locator("#server-key")).to_have_value(KEY)

        asked = len(server.requests)
        page.locator("#server-file").set_input_files(
            {"name": "answer.json", "mimeType": "application/json", "buffer": ANSWER.encode()}
        )
        expect(page.locator("#server-answer")).to_have_value(ANSWER)
        compare(page)
        assert lane_text(page, 1) == "B" and len(server.requests) == asked
