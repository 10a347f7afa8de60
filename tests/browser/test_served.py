"""Servers as lanes: a key stays in this browser, for its own address; a saved answer asks nobody."""

from __future__ import annotations

import json

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Window
from tests.browser.steps import button, compare, fill, lane_text, open_settings, pick
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
        page.locator("#rule-1-key").fill(KEY)
        page.locator("#rule-1-key").press("Tab")
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
        expect(page.locator("#rule-1-key")).to_have_value("")
        fill(page, "Server", server.url)
        expect(page.locator("#rule-1-key")).to_have_value(KEY)

        asked = len(server.requests)
        page.locator(".mars-server-file").set_input_files(
            {"name": "answer.json", "mimeType": "application/json", "buffer": ANSWER.encode()}
        )
        expect(page.locator("#rule-1-answer")).to_have_value(ANSWER)
        compare(page)
        assert lane_text(page, 1) == "B" and len(server.requests) == asked


def card(page: Page, lane: int) -> Locator:
    """The settings of a lane."""
    return page.locator(f'#compare-settings [data-lane="{lane}"]')


def type_into(card: Locator, label: str, text: str) -> None:
    field = card.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Tab")


def test_two_served_lanes_stream_beside_ours_each_with_its_own_address_and_key(
    window: Window,
) -> None:
    page, end = window.page, chunk("", finish="stop")
    with (
        stream_events(chunk("A"), chunk(" fox"), end) as one,
        stream_events(chunk("A"), chunk(" hen"), end) as other,
    ):
        open_settings(page)
        button(page, "Add a lane").click()
        keys = {1: (one, "sk-one"), 2: (other, "sk-other")}
        for lane, (server, key) in keys.items():
            pick(page, f"Lane {lane + 1} rule", "Served model")
            type_into(card(page, lane), "Server", server.url)
            type_into(card(page, lane), "Key", key)
        compare(page, tokens=8)
        assert [lane_text(page, lane) for lane in (1, 2)] == ["A fox", "A hen"]
        assert lane_text(page, 0) not in ("", "A fox", "A hen")
        for lane, (server, key) in keys.items():
            expect(page.locator(f"#compare-lane-{lane}")).to_contain_text(
                f"Served model only, {server.url}"
            )
            assert {each[1] for each in server.requests} == {f"Bearer {key}"}
        assert not [key for _, key in keys.values() if key in told(page)]

        answer = json.dumps({"choices": [{"text": "B" * 5000, "finish_reason": "stop"}]})
        open_settings(page)
        type_into(card(page, 2), "Or an answer that it gave", answer)
        button(card(page, 2), "Move left").click()
        expect(card(page, 1).get_by_label("Server", exact=True)).to_have_value(other.url)
        shown = [card(page, lane).get_by_label("Key", exact=True) for lane in (1, 2)]
        for field, key in zip(shown, ("sk-other", "sk-one"), strict=True):
            expect(field).to_have_value(key)
        expect(page.locator("#rule-1-answer")).to_have_value(answer)
        expect(page.locator("#rule-2-answer")).to_have_value("")
        asked = len(other.requests)
        type_into(card(page, 2), "Server", f"{one.url}/")  # another address, which has no key
        expect(shown[1]).to_have_value("")
        compare(page, tokens=8)
        assert [lane_text(page, lane)[:5] for lane in (1, 2)] == ["BBBBB", "A fox"]
        assert len(other.requests) == asked and one.requests[-1][1] == ""
