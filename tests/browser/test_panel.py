"""Panels on a bare page: what their attributes do, that updates keep what a visitor did, and that
hostile text stays text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jinja2 import DictLoader
from playwright.sync_api import Browser, Page, expect

from display.sources import source
from tests.browser.lane_page import MOUNT
from tests.browser.steps import button, expected
from ui.kit import panel
from ui.kit.assets import script, with_constants
from ui.settings.fields import Fields
from ui.settings.panel import SCRIPT

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=window.ran=1>\"'{{7*7}}${7*7}</script>\u202eabc\ud800\x1b[31m"


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


def test_a_click_reports_the_event_and_its_value(page: Page) -> None:
    mount(
        page,
        """<button data-event="select" data-value='{"action":"open","id":1}'><b>Open</b></button>
        <span role="button" tabindex="0" data-event="delete">Key</span><button disabled data-event="select">No</button>
        <input type="checkbox" data-event="select" data-value='{"run":2}'>""",
    )
    page.click("b")
    page.focus("span")
    page.keyboard.press("Enter")
    page.click("button[disabled]", force=True)
    page.check("input[type=checkbox]")
    assert events(page) == [
        ["select", {"action": "open", "id": 1}],
        ["delete", {}],
        ["select", {"run": 2, "checked": True}],
    ]


def test_a_form_reports_its_fields_and_a_confirmation_its_word_only(page: Page) -> None:
    mount(
        page,
        """<form data-event="input" data-live data-value='{"action":"search"}'><input type="search" name="text">
        <select name="rule"><option value="">Any</option><option value="mars">MARS</option></select>
        <button name="action" value="refresh">Refresh</button></form>
        <button data-toggle="sure" aria-expanded="false">Delete …</button><p role="status"></p>
        <form id="sure" hidden data-confirm data-keep data-event="delete" data-pending="Deleting …">
        <input id="word" name="word" required pattern="delete"><button type="submit">Sure</button></form>""",
    )
    page.fill("[name=text]", "abc")
    page.wait_for_function("window.triggered?.length === 1")
    page.select_option("[name=rule]", "mars")
    page.press("[name=text]", "Enter")
    zone = page.evaluate("new Date().getTimezoneOffset()")
    fields = {"text": "abc", "rule": "mars", "zone": zone}
    assert [data for _, data in events(page)] == [
        {"action": "search", **fields, "rule": ""},
        {"action": "search", **fields},
        {"action": "refresh", **fields},
    ]
    button(page, "Delete …").click()
    expected(page, "#word").to_be_focused()
    expect(button(page, "Sure")).to_be_disabled()
    page.keyboard.type("delete")
    page.keyboard.press("Enter")
    assert events(page)[-1] == ["delete", {"word": "delete", "zone": zone}]
    expect(page.get_by_role("status")).to_have_text("Deleting …")
    expected(page, "#sure").to_be_hidden()
    expect(button(page, "Delete …")).to_be_focused()


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


def test_hostile_text_is_inert_in_content_attributes_and_values(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = """<p title="{{ text }}">{{ text }}</p><button data-event="select" data-value='{{ {"text": text} | tojson }}'>x</button>"""
    monkeypatch.setattr(panel._TEMPLATES, "loader", DictLoader({"hostile.html.jinja": template}))
    html = panel.render("hostile.html.jinja", text=HOSTILE)
    mount(page, json.loads(json.dumps(html)))
    text = page.inner_text("p")
    assert "<img src=x onerror=window.ran=1>" in text and "{{7*7}}${7*7}" in text
    assert "\u202e" not in text and "\x1b" not in text and html.encode("utf-8")
    assert page.locator("img, script").count() == 0 and page.evaluate("window.ran") is None
    page.click("button")
    ((_, data),) = events(page)
    assert data["text"].startswith("<img src=x") and "\u202e" in data["text"]


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
