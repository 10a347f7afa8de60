"""Lanes of Compare: presets, order, drafts of their own, new seeds, the drafter's own fields and the draft tree of a chosen step."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.steps import (
    SLOW,
    compare,
    details_tab,
    fill,
    lane_text,
    open_history,
    open_settings,
    pick,
    reopen_latest,
    wait_for,
)

pytestmark = pytest.mark.browser


def test_lanes_are_added_and_removed_and_a_preset_sets_fields_and_lanes(window: Window) -> None:
    """A lane shows its own rule only; rounds are one run of each lane."""
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

    pick(page, "Preset", "Greedy: T = 0, with the target alone")
    expect(page.locator("#rule-2")).to_be_visible()
    expect(page.get_by_label("Temperature", exact=True)).to_have_value("0")
    sentence = compare(page, tokens=24)
    assert sentence.startswith("Strict took") and "the same, token for token" in sentence
    assert lane_text(page, 0) == lane_text(page, 1)
    fill(page, "Runs per lane (0: auto)", "3")
    sentence = compare(page, tokens=12)
    assert "3 interleaved runs each" in sentence or "a difference in time is noise" in sentence
    open_history(page)
    expect(page.locator(".mars-history-item").first.locator(".mars-history-run")).to_have_count(3)
    reopen_latest(page)
    assert wait_for(page, "done", "#history-strip .mars-strip") == sentence


def test_a_lane_drafts_in_its_own_way_and_a_new_seed_runs_at_once(window: Window) -> None:
    """A lane that moves to the left becomes the baseline, and the last one runs alone."""
    page = window.page
    open_settings(page)
    page.select_option("#lane-1-drafter select", label="N-gram lookup")
    own = page.get_by_label("K, this lane", exact=True).locator("visible=true")
    own.fill("2")
    own.blur()
    assert compare(page, tokens=24).startswith("MARS took")
    titles = page.locator("#compare-lane-0 .mars-lane-title, #compare-lane-1 .mars-lane-title")
    expect(titles).to_have_text(["Strict, K 5, greedy drafts", "MARS θ = 0.9, K 2, n-gram drafts"])
    before = [lane_text(page, lane) for lane in (0, 1)]

    open_settings(page)
    page.click("#left-lane-1")
    expect(titles).to_have_text(["MARS θ = 0.9, K 2, n-gram drafts", "Strict, K 5, greedy drafts"])
    expect(page.get_by_label("Left rule", exact=True)).to_have_value("mars")
    assert [lane_text(page, lane) for lane in (0, 1)] == before[::-1]
    assert page.inner_text("#compare-strip p").startswith("Strict took")
    page.click("#remove-lane-1")
    expect(page.locator("#rule-1")).to_be_hidden()
    assert page.inner_text("#compare-strip p").startswith("MARS wrote")

    fill(page, "Max new tokens", "8")
    page.fill("#prompt textarea", SLOW)
    fill(page, "Temperature", "0")
    page.click("#again")
    expect(page.get_by_label("Seed", exact=True)).not_to_have_value("0")
    wait_for(page, "running")
    assert wait_for(page, "done").startswith("MARS wrote")


def test_an_eagle_run_shows_the_tree_of_the_step_of_a_clicked_token(window: Window) -> None:
    page = window.page
    pick(page, "Model pair", "A small random model with a head")
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
    open_history(page)
    reopen_latest(page)
    details_tab(page, "Tree", "history")
    expect(page.locator("#history-tree .js-plotly-plot .scatterlayer .trace").first).to_be_attached()
