"""Panels on a bare page: updates keep what a visitor did, in whatever order they come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from display.sources import source
from tests.browser.lane_page import MOUNT
from tests.browser.steps import button, expected
from ui.kit import panel
from ui.kit.assets import script, with_constants
from ui.settings.fields import Fields
from ui.settings.panel import SCRIPT

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(reduced_motion="reduce")
    page.set_content(
        '<div id="outer"><div id="panel"><div class="box"></div></div></div><input id="elsewhere">'
    )
    yield page
    page.close()


def mount(page: Page, html: str) -> None:
    page.evaluate(
        MOUNT,
        [
            "panel",
            source("assets/browser.js") + script("morph.js", "panel/panel.js"),
            {"scope": "test", "value": html},
        ],
    )


def send(page: Page, html: str) -> None:
    page.evaluate("value => window.parts.panel.send(value)", html)


def events(page: Page) -> list[Any]:
    """Name and data of every event so far."""
    return [event[1:] for event in page.evaluate("window.triggered || []")]


def test_an_update_keeps_focus_scroll_open_details_and_typed_text(page: Page) -> None:
    def content(rows: list[str], text: str = "") -> str:
        items = "".join(f'<li><button data-key="{row}">{row}</button></li>' for row in rows)
        details = f"<details><summary>More</summary><p>{len(rows)}</p></details>"
        box = '<div class="scroll" style="height:40px;overflow:auto"><p style="height:400px"></p></div>'
        return f'<ol>{items}</ol>{details}{box}<input class="kept" data-keep><input class="given" value="{text}">'

    mount(page, content(["a", "b", "c"]))
    page.click("summary")
    page.evaluate("document.querySelector('.scroll').scrollTop = 100")
    page.fill(".kept", "typed")
    page.focus("[data-key=b]")
    send(page, content(["new", "a", "b", "c"], "given"))
    expected(page, "[data-key=b]").to_be_focused()
    assert (
        page.locator("details").get_attribute("open") is not None
        and page.inner_text("details p") == "4"
    )
    assert page.evaluate("document.querySelector('.scroll').scrollTop") == 100
    assert page.input_value(".kept") == "typed" and page.input_value(".given") == "given"
    page.focus("#elsewhere")
    send(page, content(["c"]))
    expected(page, "#elsewhere").to_be_focused()


def test_settings_keep_their_values_and_what_is_typed_while_they_are_drawn_again(
    page: Page,
) -> None:
    first = Fields({})
    titles = [("Strict", "strict"), ("MARS", "mars")]
    first.add("rule", "choice", "Rule", choices=titles)
    first.add("seed", "number", "Seed", 3)
    first.add("rules", "many", "Rules", ["b"], choices=[("A", "a"), ("B", "b")])

    def value(seed: float | None, at: int | None) -> str:
        fields = {**first.by_name, "seed": replace(first.by_name["seed"], value=seed)}
        macros = '{% from "settings/templates/fields.html.jinja" import row %}{{ row(fields, "") }}<button data-do="add">Add</button>'
        return json.dumps(
            {
                "html": panel._TEMPLATES.from_string(macros).render(fields=fields),
                "values": {},
                "at": at,
            }
        )

    def sent_values() -> Any:
        return json.loads(page.evaluate("window.parts.panel.props.value"))["values"]

    page.evaluate(
        MOUNT,
        [
            "panel",
            with_constants(f"{source('assets/browser.js')}\n{SCRIPT}", panel="x"),
            {"value": value(3, 0)},
        ],
    )
    page.select_option("select", "mars")
    assert events(page) == [["select", {"changes": [{"changed": "rule", "at": 2}]}]]
    assert sent_values() == {"rule": "mars", "seed": 3, "rules": ["b"], "at": 2}
    page.fill("#seed input", "8")
    page.select_option("select", "strict")  # another event, which may replace the first
    assert [each["at"] for each in events(page)[-1][1]["changes"]] == [2, 5]
    page.select_option("select", "mars")
    send(page, value(5, 2))  # the answer to the choice of the rule comes after the seed was typed
    assert sent_values()["seed"] == 8 and page.input_value("#seed input") == "8"
    send(page, value(None, 7))
    assert page.input_value("#seed input") == ""
    page.select_option("select", "mars")
    page.select_option("select", "strict")
    page.select_option("select", "mars")
    send(page, value(5, 1))  # what was requested earlier comes later
    assert page.input_value("#seed input") == ""
    send(page, value(7, None))  # another form is loaded; the answer to a change before comes later
    send(page, value(1, 2))
    assert page.input_value("#seed input") == "7" and sent_values()["seed"] == 7
    page.check("input[value=a]")
    assert sent_values() | {"at": 0} == {"rule": "strict", "seed": 7, "rules": ["a", "b"], "at": 0}
    send(page, value(6, None))
    requested_at = sent_values().get(
        "at"
    )  # by an event that Python answers with the form as it was
    page.fill("#seed input", "9")
    send(page, value(6, requested_at))
    assert page.input_value("#seed input") == "9" and sent_values()["seed"] == 9
    page.select_option("select", "mars")
    before = sent_values()["at"]
    button(page, "Add").click()
    page.select_option("select", "strict")  # is asked only once there is another lane
    assert events(page)[-1] == ["input", {"do": "add", "lane": -1}]
    send(page, value(4, sent_values()["at"] - 1))  # with the lane that was added
    assert [each["changed"] for each in events(page)[-1][1]["changes"]] == ["rule"]
    send(page, value(6, before))  # that of before it comes later
    assert page.input_value("#seed input") == "4"
