"""The main road on the real page: compare, lanes, trees, reopen, download; stop; close; bad values;
hostile text; History."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from urllib.parse import urljoin

import pandas as pd
import pytest
from playwright.sync_api import Page, ViewportSize, expect

from mars_core.types import Status
from storage import RunStore, Search
from tests.browser.conftest import PATIENCE_MS, Window
from tests.browser.steps import (
    PERMALINK,
    SLOW,
    STRIP,
    axe_problems,
    button,
    compare,
    details_tab,
    expected,
    fill,
    lane_text,
    open_history,
    open_settings,
    pick,
    press_compare,
    reopen_latest,
    wait_for,
)
from tests.gguf_files import write_gguf
from tests.serving import Server

TOP = "node => node.getBoundingClientRect().top + window.scrollY"
pytestmark = pytest.mark.browser
HOSTILE = "<script>window.ran=1</script><img src=x onerror=window.ran=1>{{7*7}}${window.ran=1}`</textarea>\u202eabc\x1b[31m =HYPERLINK(1)"


def test_comparison_is_displayed_stored_and_downloaded_alike(window: Window) -> None:
    """Its address opens it again, and its settings write the same texts again."""
    page, strip = window.page, "#history-strip .mars-strip"
    page.fill("#prompt textarea", "one two three")
    fill(page, "Seed", "7")
    sentence = compare(page)
    assert "Strict" in sentence and (
        "Time per token: " in sentence or "did the same work" in sentence
    )
    texts = [lane_text(page, lane) for lane in (0, 1)]
    assert all(len(page.query_selector_all(f"#compare-lane-{lane} .tok")) > 0 for lane in (0, 1))
    expected(page, "#compare-table tbody tr").to_have_count(8)
    numbers = page.text_content("#compare-table")
    expected(page, "#compare-lane-1 .mars-check").to_be_hidden()
    figures = {"Margins": 2, "Acceptance": 1, "Ratio": 1, "Shift": 1}
    for tab, count in figures.items():
        details_tab(page, tab)
        expect(
            page.locator("#compare-details .mars-figure[data-state=drawn]:visible")
        ).to_have_count(count)
    details_tab(page, "Shift")
    for selector in ("#compare-lane-0 .mars-check", "#compare-shift .mars-check"):
        expect(page.locator(selector)).to_contain_text("Self-check: Strict shifted nothing")
        expect(page.locator(selector)).to_have_attribute("data-state", "ok")
    expected(page, "#compare-shift-table tbody tr").to_have_count(9)
    shift = page.text_content("#compare-shift-table")

    reopen_latest(page)
    assert wait_for(page, "done", strip) == sentence
    assert "comparison=" in page.url
    page.goto(page.url)
    assert wait_for(page, "done", strip) == sentence
    assert [lane_text(page, lane, "history") for lane in (0, 1)] == texts
    expect(page.get_by_role("tab", name="History")).to_be_in_viewport()  # not scrolled past
    expected(page, "#history-reader .mars-r-whatif").to_be_visible()
    expected(page, "#history-step .mars-step").to_be_visible()
    assert page.text_content("#history-table") == numbers
    details_tab(page, "Shift", "history")
    expected(page, "#history-shift-table tbody tr").to_have_count(9)
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
    expected(page, "#settings").to_be_visible()
    open_settings(page)
    expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
    expected(page, "#prompt textarea").to_have_value("one two three")
    compare(page)
    assert [lane_text(page, lane) for lane in (0, 1)] == texts
    page.get_by_role("tab", name="Votes").click()
    expect(page).to_have_url(re.compile(r"\?tab=votes$"))
    page.get_by_role("tab", name="History").click()
    expect(page).to_have_url(re.compile("tab=history.*comparison="))


def restyling(page: Page) -> list[int]:
    """The elements that were styled at each layout of a comparison."""
    browser = page.context.browser
    assert browser
    browser.start_tracing(page=page, categories=["devtools.timeline"])
    compare(page, tokens=300)
    return [
        event["args"]["elementCount"]
        for event in json.loads(browser.stop_tracing())["traceEvents"]
        if event["name"] == "UpdateLayoutTree"
        and "elementCount" in event["args"]  # not of one that had not ended
    ]


def test_a_result_says_when_it_is_that_of_another_prompt_or_other_settings(window: Window) -> None:
    """Loaded ones too; lanes that move keep the settings of their request. A frame of a run
    restyles its new tokens and not the page."""
    page, note = window.page, window.page.locator("#compare-request .mars-request")
    page.fill("#prompt textarea", "one two")
    expect(note).to_have_text("The result below is of another prompt")  # the example
    restyled = restyling(page)
    assert sum(restyled) > page.locator("#compare-lane-0 .tok, #compare-lane-1 .tok").count() > 0
    assert sum(count > 500 for count in restyled) <= 4, (
        "what begins and ends a comparison, of some twenty frames"
    )
    expect(note).to_be_hidden()
    fill(page, "Max new tokens", "9")
    expect(note).to_have_text("The result below is of other settings")
    page.fill("#prompt textarea", "one two three")
    expect(note).to_have_text("The result below is of another prompt")
    compare(page, tokens=9)
    expect(note).to_be_hidden()
    open_settings(page)
    page.click("#left-lane-1")
    expect(page.get_by_label("Baseline rule", exact=True)).to_have_value("mars")
    expect(note).to_be_hidden()
    page.locator("#chips button").first.click()
    expect(note).to_have_text("The result below is of another prompt")
    page.get_by_label("Baseline rule", exact=True).select_option(label="Strict")
    page.fill("#prompt textarea", "one two three")
    expect(note).to_have_text("The result below is of other settings")
    open_history(page)
    page.locator(".mars-history-row").nth(1).click()
    expected(page, "#history-open").to_be_focused()
    page.locator("#history-again").click()
    expected(page, "#prompt textarea").to_have_value("one two")
    expect(note).to_be_hidden()  # its result came with it


def begin_slow_run(page: Page) -> None:
    """One that ends only when it is stopped; its first token is there."""
    page.wait_for_selector("#compare")
    page.fill("#prompt textarea", SLOW)
    for label, value in (
        ("Temperature", "0"),
        ("K, drafted tokens", "1"),
        ("Max new tokens", "3000"),
    ):
        fill(page, label, value)
    press_compare(page)
    page.wait_for_selector(".mars-lane[data-state=running] .tok")


def test_stop_replaces_compare_and_what_a_closed_tab_ran_is_saved_as_cancelled(
    window: Window, server: Server
) -> None:
    page = window.page
    expected(page, "#stop").to_be_hidden()
    begin_slow_run(page)
    expected(page, "#compare").to_be_hidden()
    expected(page, "#again").to_be_hidden()
    expected(page, "#compare-details .mars-figure:visible").to_have_count(
        0
    )  # those of the example are gone
    expected(page, "#stop").to_be_focused()
    page.set_viewport_size(ViewportSize(width=390, height=844))
    page.keyboard.press("Enter")
    assert "Stopped" in wait_for(page, "cancelled")
    expected(page, "#stop").to_be_hidden()
    expected(page, "#compare").to_be_focused()
    cut = "names => names.filter(name => name.scrollWidth > name.clientWidth).length"
    assert page.eval_on_selector_all(f"{STRIP} .mars-passes dd span", cut) == 0
    assert _latest_states(server)[-1] is Status.CANCELLED
    page.fill("#prompt textarea", "Once upon a time")
    compare(page, tokens=16)  # the next run works
    page.eval_on_selector("#compare-lane-0 .mars-tile b", "b => { b.textContent = '0.123'; }")
    assert page.eval_on_selector_all("#compare-lane-0 .mars-tile dd", cut) == 0
    heights = "labels => new Set(labels.map(label => label.offsetHeight)).size"
    assert page.eval_on_selector_all("#compare-lane-0 .mars-tile dt", heights) == 1

    begin_slow_run(page)
    expect(page).to_have_url(PERMALINK)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.reload()  # which loses nothing
    assert "Stopped." in wait_for(page, "cancelled")
    expect(page).to_have_url(PERMALINK)
    expected(page, "#prompt textarea").to_have_value(SLOW)
    open_settings(page)
    expect(page.get_by_label("Max new tokens", exact=True)).to_have_value("3000")
    expected(page, "#settings [data-lane]").to_have_count(2)
    assert said == []
    begin_slow_run(page)
    page.close()
    ends = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < ends and not _latest_states(server):
        time.sleep(0.2)
    assert _latest_states(server)[-1] is Status.CANCELLED


def test_a_conversation_goes_on_with_every_key_after_a_reload_and_where_it_was_stopped(
    window: Window,
) -> None:
    page, turns = window.page, window.page.locator("#compare-turns")
    expected(page, "#follow-up").to_be_hidden()  # of the example
    page.fill("#prompt textarea", "Once upon a time")
    compare(page, tokens=12)
    field = page.get_by_label("Follow-up")
    expect(field).to_be_disabled()  # a pair without a chat template
    expected(page, "#follow-up").to_contain_text("There is no follow-up without a chat template")
    pick(page, "Model pair", "Sums")
    compare(page, tokens=12)
    first = [lane_text(page, lane) for lane in (0, 1)]
    field.fill(f"And {HOSTILE}?")
    field.press("Enter")
    expect(turns).to_contain_text("Turn 2.")
    expect(field).to_have_value("")
    expect(field).to_be_focused()
    wait_for(page, "done")
    turns.locator("summary").click()
    expect(turns.locator("li .mars-turn-question")).to_have_text("Once upon a time")
    assert turns.locator("li div p").all_inner_texts() == first
    assert page.evaluate("window.ran") is None and axe_problems(page) == {}
    second = [lane_text(page, lane) for lane in (0, 1)]
    page.reload()
    expect(turns).to_contain_text("Turn 2.")
    wait_for(page, "done")
    assert [lane_text(page, lane) for lane in (0, 1)] == second
    expected(page, "#prompt textarea").to_have_value("Once upon a time")
    page.get_by_label("The conversation so far").click()
    page.get_by_role("option", name="leftmost").click()
    field.fill(SLOW)
    field.press("Control+Enter")
    expect(turns).to_contain_text("Turn 3. All lanes go on from the same answers.")
    page.wait_for_selector(".mars-lane[data-state=running] .tok")
    page.click("#stop")
    assert "Stopped" in wait_for(page, "cancelled")
    page.set_viewport_size(ViewportSize(width=390, height=844))
    field.fill("The end?")
    page.get_by_role("button", name="Ask").click()
    expect(turns).to_contain_text("Turn 4.")
    wait_for(page, "done")
    if turns.locator("details").get_attribute("open") is not None:
        turns.locator("summary").click()
    folded = turns.locator(".mars-turns")  # one line on a phone, with the question
    expect(turns.locator("summary")).to_contain_text("The end?")
    assert folded.evaluate("panel => panel.offsetHeight") < 50
    turns.locator("summary").click()
    expect(turns).to_contain_text("stopped after")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    last = [lane_text(page, lane) for lane in (0, 1)]
    turns.get_by_role("button", name="Show its tokens").first.click()
    expect(turns).to_contain_text("Turn 1 of 4.")
    expected(page, "#follow-up").to_be_hidden()  # it follows the last turn
    assert [lane_text(page, lane) for lane in (0, 1)] == first
    page.reload()
    expect(turns).to_contain_text("Turn 1 of 4.")
    turns.get_by_role("button", name="Show the last turn").click()
    expect(turns).to_contain_text("Turn 4.")
    expected(page, "#follow-up").to_be_visible()
    assert [lane_text(page, lane) for lane in (0, 1)] == last


DROP = """(field, name) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["GGUF"], name));
    field.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
}"""


def test_own_models_are_browsed_described_and_remembered_and_a_missing_one_is_named(
    window: Window, tmp_path: Path
) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    page, note, missing = window.page, window.page.locator("#pair-note"), "/nowhere/<b>model</b>"
    target, described = page.locator("#target-input"), "target: llama, GGUF F32"
    pick(page, "Model pair", "My own model…")
    expect(page.get_by_role("button", name="Browse …")).to_be_visible()
    target.fill(str(tmp_path))
    target.blur()
    note.get_by_role("button", name="tiny.gguf").click()
    expect(target).to_have_value(str(tmp_path / "tiny.gguf"))
    expect(note).to_contain_text(described)
    target.fill(missing)
    page.fill("#prompt textarea", "a prompt that stays")
    press_compare(page)
    assert missing in wait_for(page, "failed")
    assert page.input_value("#prompt textarea") == "a prompt that stays"
    assert page.locator(STRIP).get_attribute("role") == "alert"
    page.reload()
    page.wait_for_selector("#compare")
    expect(target).to_have_value(missing)
    open_settings(page)
    target.fill("")
    offered = page.locator("[data-recent] button")  # those that were there
    expect(offered.filter(has_text="nowhere")).to_have_count(0)
    offered.filter(has_text="tiny.gguf").click()
    expect(note).to_contain_text(described)
    target.evaluate(DROP, "elsewhere.gguf")
    expect(target).to_have_value("elsewhere.gguf")
    expect(note).to_contain_text("There is no file or folder elsewhere.gguf")


def picture_height(page: Page, folder: Path) -> int:
    with page.expect_download() as download:
        button(page.locator("#compare-share"), "Share picture").click()
    assert re.fullmatch(r"mars-[0-9a-f]{8}\.png", download.value.suggested_filename)
    download.value.save_as(folder / "picture.png")
    head = (folder / "picture.png").read_bytes()[:24]
    width, height = (int.from_bytes(head[at : at + 4], "big") for at in (16, 20))
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and width == 2400 and 400 < height < 3000
    return height


def test_hostile_text_is_displayed_and_never_run_and_picture_and_report_need_nothing_else(
    window: Window, tmp_path: Path
) -> None:
    """In the picture a long text is cut, and takes more room than a short one."""
    page, picture = window.page, window.page.locator("#compare-share [data-picture]")
    page.fill("#prompt textarea", "one")
    open_settings(page)
    page.locator("#settings #remove-lane-1").click()
    expected(page, "#rule-1").to_be_hidden()
    compare(page, tokens=8)
    low, before = picture_height(page, tmp_path), picture.get_attribute("data-picture") or ""
    expected(page, "#compare-share [role=status]").to_have_text("The picture was saved.")
    page.fill("#prompt textarea", HOSTILE * 8)
    page.evaluate(
        "() => { const box = document.querySelector('#prompt textarea'); box.value += '\\ud800';"
        " box.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    open_settings(page)
    page.click("#add-lane")
    expected(page, "#rule-1").to_be_visible()
    compare(page, tokens=100)
    expect(picture).not_to_have_attribute("data-picture", before)
    assert picture_height(page, tmp_path) > low
    open_history(page)
    row = page.locator(".mars-history-prompt").first
    assert (
        "<script>window.ran=1</script>" in row.inner_text()
        and "{{7*7}}${window.ran=1}" in row.inner_text()
    )
    reopen_latest(page)
    expected(page, "#history-prompt").to_have_text(
        8 * HOSTILE.replace("\u202e", "⟨U+202E⟩").replace("\x1b", "␛") + "\ufffd"
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
    assert (
        "<script>window.ran=1</script><img src=x onerror=window.ran=1>{{7*7}}"
        in page.inner_text("body")
    )
    assert page.evaluate("window.ran") is None
    assert [url for url in requested if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    window.outside.clear()  # the file itself


def _latest_states(server: Server) -> list[Status]:
    """The states of the latest comparison's runs, in the order in which they ran."""
    with RunStore(server.database) as store:
        stored = store.load(store.matching_ids(Search(limit=1))[0])
        return [run.trace.status for run in sorted(stored.runs, key=lambda run: run.order)]


def test_lanes_are_added_and_removed_and_a_preset_sets_fields_and_lanes(window: Window) -> None:
    """A lane shows its rule only; rounds are one run of each lane."""
    page = window.page
    open_settings(page)
    add = page.locator("#add-lane")
    for lane in (2, 3):
        add.click()
        expected(page, f"#rule-{lane}").to_be_visible()
    expect(add).to_be_disabled()
    for lane in (3, 2):
        page.click(f"#remove-lane-{lane}")
        expected(page, f"#rule-{lane}").to_be_hidden()
    card = page.locator('.mars-lane-settings [data-lane="1"]')
    pick(page, "Lane 2 rule", "Typical acceptance")
    expect(card.get_by_label("ε", exact=False).first).to_be_visible()
    expect(card.get_by_text("θ", exact=True)).to_have_count(0)
    card.locator(".mars-rule summary").click()
    assert (
        card.locator(".mars-rule code").inner_text()
        and card.locator(".mars-rule small").inner_text()
    )
    assert "Typical acceptance" in compare(page, tokens=16)
    open_settings(page)
    page.click("#remove-lane-1")
    expected(page, "#rule-1").to_be_hidden()
    expected(page, "#remove-lane-0").to_be_disabled()

    pick(page, "Preset", "Greedy: T = 0, with the target alone")
    expected(page, "#rule-2").to_be_visible()
    expect(page.get_by_label("Temperature", exact=True)).to_have_value("0")
    sentence = compare(page, tokens=24)
    assert sentence.startswith("Strict and Target alone wrote the same text, token for token.")
    assert lane_text(page, 0) == lane_text(page, 1)

    page.locator("#preset input").click()
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("option").locator("visible=true")).to_have_count(0)
    pick(page, "Runs per lane", "3")
    sentence = compare(page, tokens=12)
    assert "3 rounds" in sentence or "did the same work" in sentence
    open_history(page)
    expect(page.locator(".mars-history-item").first.locator(".mars-history-run")).to_have_count(3)
    reopen_latest(page)
    assert wait_for(page, "done", "#history-strip .mars-strip") == sentence


def test_what_theta_means_follows_it_and_the_pair_without_moving_the_page(window: Window) -> None:
    """Under the field, as it is typed and once another pair is loaded, and under the slider. What
    is typed is left as it is."""
    page = window.page
    open_settings(page)
    card = page.locator('.mars-lane-settings [data-lane="1"]')
    theta, note, below = (
        card.get_by_label("θ", exact=True),
        card.locator(".mars-threshold"),
        page.locator("#rule-note-1"),
    )
    expect(note).to_have_text(
        re.compile(r"^On this pair θ = 0\.9 calls \d+ % of 127 positions near ties")
    )
    selector = below.evaluate(TOP)
    theta.press("End")
    for typed, expected_theta in (("5", "0.95"), ("0", "0.95")):
        theta.press_sequentially(typed)
        expect(note).to_contain_text(f"θ = {expected_theta} calls")
        assert below.evaluate(TOP) == selector
    page.locator("#seed input").fill("4")
    expect(page.locator("#settings summary").first).to_be_visible()
    expect(theta).to_have_value("0.950")

    theta.fill("")
    expect(note).to_have_text("")
    assert below.evaluate(TOP) == selector
    theta.fill("0.9")
    pick(page, "Model pair", "A small random model with a head")
    expect(theta).to_have_value("0.8")
    expect(note).to_contain_text(
        "θ = 0.8 is the default of this pair: its logits are those of chance. The paper's is 0.9."
    )
    selector = page.locator("#rule-note-1").evaluate(TOP)
    compare(page, tokens=16)
    open_settings(page)
    expect(note).to_contain_text("On this pair θ = 0.8 calls")
    assert below.evaluate(TOP) == selector
    theta.fill("0.9")
    expect(note).to_contain_text("On this pair θ = 0.9 calls")

    slider, counted = (
        page.locator("#compare-reader .mars-r-theta"),
        page.locator("#compare-reader .mars-r-counts span"),
    )
    expect(slider).to_have_value("0.8")
    text = page.locator("#compare-lane-0 .mars-text")
    slider.fill("0.5")  # the text is now coloured by what would be accepted
    selector = text.evaluate(TOP)
    slider.fill("0")
    expect(counted.nth(1)).to_contain_text("MARS θ = 0.8 would keep")
    assert text.evaluate(TOP) == selector
