"""What is typed stays: in every field of every form on the real page, while it is drawn again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from storage import RunStore, Search
from tests.browser.conftest import Window
from tests.browser.steps import button, compare, expected, fill, reopen_latest
from tests.serving import Server

pytestmark = pytest.mark.browser
TYPED = ("text", "textarea", "number")  # types of fields
VISIBLE = (
    "fields => fields.filter(each => each.checkVisibility()).map(each => [each.id, each.type])"
)


def draw_again(page: Page, panel: str) -> None:
    """Twice, so that the second answer is one to what was typed before: an answer takes the mark
    away, which the server does not know."""
    for _ in range(2):
        page.eval_on_selector(f"{panel} .mars-bar", "bar => { bar.dataset.drawn = 'before'; }")
        page.locator(f"{panel} [data-name=chat]").click()
        expected(page, f"{panel} .mars-bar[data-drawn]").to_have_count(0)


@pytest.mark.parametrize("scope", ["compare", "votes", "study"])
def test_every_typed_field_keeps_its_value_while_its_form_is_drawn_again(
    window: Window, scope: str
) -> None:
    page, panel = window.page, f"#{scope}-settings"
    page.get_by_role("tab", name={"study": "Quality"}.get(scope, scope.title())).click()
    if scope == "study":
        button(page, "Start a study").click()
    expected(page, panel).to_be_attached()
    page.eval_on_selector_all(
        f"{panel} details", "all => all.forEach(each => { each.open = true; })"
    )
    fields = [
        id_
        for id_, type_ in page.eval_on_selector_all(f"{panel} [data-name]", VISIBLE)
        if type_ in TYPED
    ]
    typed = {}
    for id_ in fields:
        field = page.locator(f"#{id_}")
        field.press("End")
        field.press("1")
        typed[id_] = field.input_value()
        field.press("Tab")
    draw_again(page, panel)
    assert {id_: page.input_value(f"#{id_}") for id_ in fields} == typed
    assert len(typed) > 10 and all(typed.values())


def test_a_run_has_the_texts_that_were_typed_and_notes_stay_until_they_are_saved(
    window: Window, server: Server
) -> None:
    page = window.page
    page.locator("#settings summary").first.click()
    page.locator("#compare-settings .mars-advanced > summary").first.click()
    fill(page, "System prompt", "Answer briefly.")
    fill(page, "Stop strings, one a line", "zzz")
    draw_again(page, "#compare-settings")
    compare(page, tokens=8)
    with RunStore(server.database) as store:
        (comparison,) = store.find(Search(limit=1)).frame["id"]
        prompt = store.load(comparison).prompt
    assert (prompt.system, prompt.stop) == ("Answer briefly.", ("zzz",))

    reopen_latest(page)
    comment = page.locator("#history-comment textarea")
    comment.fill("not saved yet")
    page.get_by_role("tab", name="Compare").click()
    page.go_back()  # opens the comparison again
    expect(comment).to_be_visible()
    expected(page, "#history-name input").to_have_value("")
    expect(comment).to_have_value("not saved yet")
    page.click("#history-save")
    expect(page.locator("#history-foot [role=status]")).to_have_text("Saved.")
    expect(comment).to_have_value("not saved yet")
