"""Several rules in one go, the drafter's own fields, the draft tree of a chosen step, and the self-check, on the real page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.steps import compare, details_tab, open_history, open_settings, pick, reopen_latest

pytestmark = pytest.mark.browser
EAGLE = "A small random model with a head"


def test_lanes_are_added_and_removed_and_show_their_own_rule_only(window: Window) -> None:
    page = window.page
    open_settings(page)
    add = page.locator("#add-lane")
    for lane in (2, 3):
        add.click()
        expect(page.locator(f"#rule-{lane}")).to_be_visible()
    expect(add).to_be_disabled()
    for lane in (3, 2):
        page.click(f"#remove-lane-{lane}")
        expect(page.locator(f"#rule-{lane}")).to_be_hidden()
    card = page.locator('.mars-lane-settings [data-lane="1"]')
    pick(page, "Right rule", "Typical acceptance")
    expect(card.get_by_label("ε", exact=False).first).to_be_visible()
    expect(card.get_by_text("θ", exact=True)).to_have_count(0)
    card.locator(".mars-rule summary").click()
    assert card.locator(".mars-rule code").inner_text() and card.locator(".mars-rule small").inner_text()
    assert "Typical acceptance" in compare(page, tokens=16)
    page.click("#remove-lane-1")
    expect(page.locator("#rule-1")).to_be_hidden()
    expect(page.locator("#remove-lane-0")).to_be_disabled()


def test_an_eagle_run_shows_the_tree_of_the_step_of_a_clicked_token(window: Window) -> None:
    page = window.page
    pick(page, "Model pair", EAGLE)
    expect(page.get_by_label("Drafts from", exact=True)).to_have_value("eagle3")
    expect(page.locator("#tree-depth input")).to_be_visible()
    expect(page.get_by_label("K, drafted tokens", exact=True)).to_be_hidden()
    compare(page, tokens=24)
    details_tab(page, "Tree")
    panel = page.locator("#compare-tree")
    expect(panel.locator(".js-plotly-plot .scatterlayer .trace").first).to_be_attached()
    expect(panel.locator("figcaption")).to_contain_text("tokens drafted")
    page.locator("#compare-lane-0 .tok").last.click()
    expect(panel.get_by_role("radio", name="Strict", exact=True)).to_be_checked()
    last = panel.get_by_label("Step", exact=False).first.input_value()
    expect(panel.locator("figcaption")).to_contain_text(f"Step {last}:")
    panel.get_by_role("button", name="Previous").click()
    expect(panel.locator("figcaption")).to_contain_text(f"Step {int(last) - 1}:")
    window.shot("tree")
    open_history(page)
    reopen_latest(page)
    details_tab(page, "Tree", "history")
    expect(page.locator("#history-tree .js-plotly-plot .scatterlayer .trace").first).to_be_attached()
