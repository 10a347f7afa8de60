"""What is typed in every form on the real page: it stays while the form is drawn again, and what is
refused is shown at its field."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from storage import RunStore, Search
from tests.browser.conftest import Window
from tests.browser.steps import button, compare, expected, fill, reopen_latest
from tests.serving import Server

pytestmark = pytest.mark.browser
TYPED = ("text", "textarea", "number")  # types of fields
VISIBLE = (
    "fields => fields.filter(each => each.checkVisibility()).map(each => [each.id, each.type])"
)


def open_form(page: Page, scope: str) -> None:
    """With all of its parts."""
    page.get_by_role("tab", name={"study": "Quality"}.get(scope, scope.title())).click()
    if scope == "study":
        button(page, "Start a study").click()
    expected(page, f"#{scope}-settings .mars-bar").to_be_attached()
    page.eval_on_selector_all(
        f"#{scope}-settings details", "all => all.forEach(each => { each.open = true; })"
    )


def draw_again(page: Page, panel: str) -> None:
    """Twice, so that the second answer is one to what was typed before: an answer takes the mark
    away, which the server does not know."""
    for _ in range(2):
        page.eval_on_selector(f"{panel} .mars-bar", "bar => { bar.dataset.drawn = 'before'; }")
        page.locator(f"{panel} [data-name=chat]").click()
        expected(page, f"{panel} .mars-bar[data-drawn]").to_have_count(0)


def keep_what_is_typed(page: Page, scope: str) -> None:
    """In every field, while the form is drawn again."""
    panel = f"#{scope}-settings"
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


def run_with_what_is_typed(page: Page, server: Server) -> None:
    """And notes stay until they are saved."""
    page.locator("#settings summary").first.click()
    page.locator("#compare-settings .mars-advanced > summary").first.click()
    fill(page, "System prompt", "Answer briefly.")
    fill(page, "Stop strings, one a line", "zzz")
    draw_again(page, "#compare-settings")
    compare(page, tokens=8)
    with RunStore(server.database) as store:
        (comparison,) = store.matching_ids(Search(limit=1))
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


REFUSED = {
    "compare": {
        "max-new-tokens-input": "100000",
        "k-input": "1.5",
        "seed-input": "",
        "rule-1-parameter-theta-input": "7",
        "logit-bias-input": "abc",
        "protect-input": "[999999999]",
        "prompt": "  ",
    },
    "votes": {"votes-max-new-tokens-input": "0", "votes-rule-1-parameter-theta-input": ""},
    "study": {
        "study-prompts-input": "",
        "study-parameters-input": "theta = 0.9, abc",
        "study-margin-input": "7",
    },
}
BUTTONS = {"compare": "#compare", "votes": "#votes-write", "study": "#study-run"}


def refuse(page: Page, scope: str, id_: str, value: str) -> None:
    """It is shown at its field, which has the focus."""
    field = page.locator("#prompt textarea" if id_ == "prompt" else f"#{id_}")
    page.eval_on_selector_all(
        f"#{scope}-settings details", "all => all.forEach(each => { each.open = true; })"
    )
    before = field.input_value()
    field.fill(value)
    field.blur()
    page.click(BUTTONS[scope])
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_in_viewport(ratio=1)
    strip = page.inner_text(f"#{ {'study': 'quality'}.get(scope, scope) }-strip .mars-strip p")
    expect(page.locator(f"[id='{field.get_attribute('aria-describedby')}']")).to_have_text(strip)
    field.fill(before)
    expect(field).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize("size", [ViewportSize(width=1440, height=900)])
def test_what_is_typed_in_any_form_stays_is_run_or_refused_at_its_field(
    window: Window, server: Server
) -> None:
    page = window.page
    run_with_what_is_typed(page, server)
    for scope, values in REFUSED.items():
        open_form(page, scope)
        if scope == "study":  # without other studies the example is opened by itself, and says so
            expect(page.locator(".mars-study-entry").first).to_be_attached()
            if page.locator(".mars-studies[data-first]").count():
                expect(page.locator("#quality-strip")).to_contain_text("An example")
        for id_, value in values.items():
            refuse(page, scope, id_, value)
        keep_what_is_typed(page, scope)
