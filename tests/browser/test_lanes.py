"""Lanes of Compare: presets, order, drafts of their own, new seeds."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.steps import (
    SLOW,
    compare,
    fill,
    lane_text,
    open_history,
    open_settings,
    pick,
    reopen_latest,
    wait_for,
)

pytestmark = pytest.mark.browser
PRESET = "Preset"


def test_a_preset_sets_fields_and_lanes_and_rounds_are_one_run_of_each_lane(window: Window) -> None:
    page = window.page
    pick(page, PRESET, "Greedy: T = 0, with the target alone")
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


def test_a_lane_that_moves_to_the_left_becomes_the_baseline_and_runs_alone(window: Window) -> None:
    page = window.page
    assert compare(page, tokens=24).startswith("MARS took")
    before = [lane_text(page, lane) for lane in (0, 1)]
    open_settings(page)
    page.click("#left-lane-1")
    expect(page.locator("#compare-lane-0 .mars-lane-title")).to_have_text("MARS θ = 0.9")
    expect(page.get_by_label("Left rule", exact=True)).to_have_value("mars")
    assert [lane_text(page, lane) for lane in (0, 1)] == before[::-1]
    assert page.inner_text("#compare-strip p").startswith("Strict took")
    page.click("#remove-lane-1")
    expect(page.locator("#rule-1")).to_be_hidden()
    assert page.inner_text("#compare-strip p").startswith("MARS wrote")
    assert compare(page, tokens=12).startswith("MARS wrote")


def test_a_lane_drafts_in_its_own_way_and_a_new_seed_runs_at_once(window: Window) -> None:
    page = window.page
    open_settings(page)
    page.select_option("#lane-1-drafter select", label="N-gram lookup")
    own = page.get_by_label("K, this lane", exact=True).locator("visible=true")
    own.fill("2")
    own.blur()
    compare(page, tokens=24)
    titles = [page.inner_text(f"#compare-lane-{lane} .mars-lane-title") for lane in (0, 1)]
    assert titles == ["Strict, K 5, greedy drafts", "MARS θ = 0.9, K 2, n-gram drafts"]

    fill(page, "Max new tokens", "8")
    page.fill("#prompt textarea", SLOW)
    fill(page, "Temperature", "0")
    page.click("#again")
    expect(page.get_by_label("Seed", exact=True)).not_to_have_value("0")
    wait_for(page, "running")
    wait_for(page, "done")
