"""A lane and the bar above it, on a bare page: nothing is lost, colours, what another θ would keep,
one step, keyboard, numbers."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Protocol

import pytest
from playwright.sync_api import Browser, Page, expect

from display.format import count, displayable, duration, number, share, visible
from mars_core.types import Outcome, Trace
from tests.browser.lane_page import open_lanes, send, tell
from tests.browser.steps import button, expected
from tests.serving import serving
from tests.traces import ACCEPTED_OR_RELAXED, make_trace, make_tree_trace
from tests.unit.ui.helpers import judged
from ui.kit.assets import asset
from ui.token_view.components import QUANTITIES
from ui.token_view.reading import markdown_html
from ui.token_view.story import relaxed_story
from ui.token_view.view import LaneView, ended_view

pytestmark = pytest.mark.browser
MARS, STRICT = make_trace(rule="mars", new_tokens=120), make_trace(rule="strict", new_tokens=90)
TREE = make_tree_trace(new_tokens=90)


class LanePage(Protocol):
    def __call__(self, *views: LaneView, continues: bool = False) -> Page: ...


@pytest.fixture
def lane_page(browser: Browser) -> Iterator[LanePage]:
    """Opens pages of a test, which are closed at its end; no script of theirs failed."""
    opened: list[Page] = []

    def show(*views: LaneView, continues: bool = False) -> Page:
        page = open_lanes(browser, views, continues=continues)
        page.evaluate(
            "window.failures = []; addEventListener('error', (event) => window.failures.push(event.message))"
        )
        opened.append(page)
        return page

    yield show
    for page in opened:
        errors = page.evaluate("window.failures")
        page.close()
        assert errors == []


def full_text(page: Page, lane: int) -> str:
    """The text as it is marked up: hollow tokens and signs of line ends are ours."""
    return str(
        page.evaluate(
            "(id) => [...document.querySelectorAll(`#${id} .tok:not(.hollow)`)].map((tok) => [...tok.childNodes]"
            ".filter((node) => node.className !== 'newline').map((node) => node.textContent).join('')).join('')",
            f"lane-{lane}",
        )
    )


def test_streamed_tokens_are_all_there_though_an_update_is_lost(lane_page: LanePage) -> None:
    page = lane_page(LaneView("MARS", state="waiting", run="x/0"))
    box = page.locator("#lane-0").bounding_box()
    expected(page, ".mars-step").to_be_hidden()  # what has not ended has no steps yet
    end = ended_view(MARS, "x/0")
    starts = range(0, len(end.rows), 8)
    for at in starts:
        if at // 8 % 3 == 1:
            continue  # lost
        before = max(0, at - 8)
        rows = end.rows[before : at + 8]
        send(
            page,
            0,
            LaneView("MARS", state="running", run="x/0", start=before, rows=rows, complete=False),
        )
    assert full_text(page, 0) == displayable(MARS.text)
    page.evaluate(
        "document.querySelectorAll('#lane-0 .tok').forEach((tok) => { tok.stayed = true; })"
    )
    send(page, 0, end)
    assert full_text(page, 0) == displayable(MARS.text)
    assert page.evaluate(
        "[...document.querySelectorAll('#lane-0 .tok')].every((tok) => tok.stayed)"
    )
    assert page.locator("#lane-0 .tok").count() == len(MARS.tokens)
    expected(page, ".mars-step").to_be_visible()
    after = page.locator("#lane-0").bounding_box()
    assert box and after and abs(box["y"] - after["y"]) <= 1  # it did not move


def test_in_a_narrow_window_lanes_are_tabs(lane_page: LanePage) -> None:
    page = lane_page(*(ended_view(trace, f"x/{lane}") for lane, trace in enumerate((STRICT, MARS))))
    tabs = page.locator(".mars-r-lanes button")
    expect(tabs.first).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(tabs).to_have_text(["Strict", "MARS θ = 0.9"])
    expect(page.get_by_role("button", name="Run with this θ")).to_be_visible()
    expect(page.get_by_label("Scroll together")).to_be_hidden()
    expect(tabs.nth(0)).to_have_attribute("aria-pressed", "true")
    expected(page, "#lane-1 .mars-text").not_to_be_in_viewport(ratio=0.5)
    tabs.nth(1).click()
    expected(page, "#lane-1 .mars-text").to_be_in_viewport(ratio=0.5)
    for block in (
        "start",
        "end",
    ):  # what is said of a token neither leaves the window nor covers it
        token = page.locator("#lane-1 .tok").nth(30)
        token.evaluate("(token, block) => token.scrollIntoView({ block })", block)
        token.click()
        pop = page.locator("#lane-1 .mars-pop.pinned")
        expect(pop).to_be_in_viewport(ratio=1)
        beside, box = token.bounding_box(), pop.bounding_box()
        assert beside and box
        assert box["y"] + box["height"] <= beside["y"] or box["y"] >= beside["y"] + beside["height"]
        page.keyboard.press("Escape")
    expect(tabs.nth(1)).to_have_attribute("aria-pressed", "true")
    page.locator(".mars-lanes").evaluate("(row) => row.scrollTo(0, 0)")
    expect(tabs.nth(0)).to_have_attribute("aria-pressed", "true")
    expect(tabs.nth(1)).to_have_attribute("aria-pressed", "false")
    send(
        page, 1, LaneView("MARS θ = 0.9", state="running", run="y/1")
    )  # the one that runs comes into sight
    expect(tabs.nth(1)).to_have_attribute("aria-pressed", "true")
    expected(page, "#lane-1 .mars-text").to_be_in_viewport(ratio=0.5)
    send(page, 1, ended_view(MARS, "y/1"))
    send(page, 0, LaneView("Strict", state="running", run="y/0"))
    expect(tabs.nth(0)).to_have_attribute("aria-pressed", "true")
    send(page, 0, ended_view(STRICT, "y/0"))  # after the last run the relaxed text
    expect(tabs.nth(1)).to_have_attribute("aria-pressed", "true")


def test_the_counts_at_another_theta_are_those_of_python(lane_page: LanePage) -> None:
    traces = (MARS, STRICT, TREE)
    page = lane_page(*(ended_view(trace, f"x/{lane}") for lane, trace in enumerate(traces)))
    for theta in ("0", "0.5", "0.85", "0.9", "0.95", "1"):
        page.locator(".mars-r-theta").fill(theta)
        counts = page.locator(".mars-r-counts span").all_inner_texts()
        assert [re.sub(r"\s+", " ", text) for text in counts] == [
            count_text(trace, float(theta)) for trace in traces
        ]
    assert "not a new run" in (page.get_attribute(".mars-r-whatif", "title") or "")
    changed = [
        draft.token.position
        for draft in judged(MARS)
        if draft.accepted and not draft.accepted_at(1.0)
    ]
    read = "(all) => all.map((tok) => Number(tok.dataset.i))"
    assert page.eval_on_selector_all('#lane-0 [data-if="refused changed"]', read) == changed != []
    button(page, "Run with this θ").click()
    assert page.evaluate("window.triggered") == [["reader", "select", {"theta": 1}]]
    # nothing is run from what can only be read
    for lane, trace in enumerate(traces):
        send(page, lane, replace(ended_view(trace, f"z/{lane}"), continues=False))
    expect(button(page, "Run with this θ")).to_be_hidden()
    # the slider begins at the θ of the runs
    send(page, 0, ended_view(make_trace(rule="mars", theta=0.84, new_tokens=30), "y/0"))
    expected(page, ".mars-r-value").to_have_text("θ = 0.84")
    page.locator(".mars-r-theta").fill("0.5")
    expected(page, ".mars-r-value").to_have_text("θ = 0.5")
    button(page, "Reset").click()
    expected(page, ".mars-r-value").to_have_text("θ = 0.84")
    expect(button(page, "Run with this θ")).to_be_visible()


def count_text(trace: Trace, theta: float) -> str:
    drafts = judged(trace)
    more = sum(draft.accepted_at(theta) and not draft.accepted for draft in drafts)
    fewer = sum(draft.accepted and not draft.accepted_at(theta) for draft in drafts)
    kept = sum(draft.accepted_at(theta) for draft in drafts)
    title, steps = ended_view(trace, "x").title, len(trace.steps)
    told = f"{title} would keep {count(kept)} of {count(len(drafts))} drafts"
    if not more and not fewer:
        return f"{told} (as it ran), {count(steps)} passes"
    passes = f"about {count(round(passes_at(trace, theta)))} passes instead of {count(steps)}"
    return f"{told} (+{count(more)} −{count(fewer)}), {passes}"


def passes_at(trace: Trace, theta: float) -> float:
    """Passes for as many tokens, if at each depth the share of steps that keep a draft were that
    at θ."""
    depths = {
        token.position: token.position - step.emitted[0].position
        for step in trace.steps
        for token in step.emitted
    }
    kept = dict[int, bool]()  # output position → whether one of its drafts would be kept
    for draft in judged(trace):
        at = draft.token.position
        kept[at] = kept.get(at, False) or draft.accepted_at(theta)
    reached, length = 1.0, 1.0
    for depth in range(1 + max(depths[at] for at in kept)):
        there = [kept[at] for at in kept if depths[at] == depth]
        reached *= fmean(there)
        length += reached
    return len(trace.tokens) / length


def test_shapes_of_outcomes_stay_in_every_colouring_and_granularity(lane_page: LanePage) -> None:
    page = lane_page(ended_view(MARS, "x/0"))
    lines = {"relaxed": "solid", "recovered": "dotted", "bonus": "dashed"}
    decoration = "(node) => getComputedStyle(node).textDecorationLine"
    for outcome in lines:  # before all are requested, the relaxed alone
        marked = page.locator(f"#lane-0 .{outcome} .w, #lane-0 .{outcome}.w").first
        assert marked.evaluate(decoration) == ("underline" if outcome == "relaxed" else "none")
    page.get_by_label("Show all outcomes").check()
    for quantity in QUANTITIES:
        page.select_option(".mars-r-quantity", quantity.key)
        for granularity in ("token", "word", "sentence") if quantity.field else ():
            page.select_option(".mars-r-granularity", granularity)
            assert page.locator("#lane-0 .tok[style]").count() > 0, (quantity.key, granularity)
        for outcome, line in lines.items():
            style = page.locator(f"#lane-0 .{outcome} .w, #lane-0 .{outcome}.w").first.evaluate(
                "(node) => [getComputedStyle(node).textDecorationLine, getComputedStyle(node).textDecorationStyle]"
            )
            assert style == ["underline", line]
    page.select_option(".mars-r-quantity", "r")
    button(page, "Reset").click()
    expected(page, "#lane-0 .tok[style]").to_have_count(0)
    # the first token of each step has a border
    ticked = page.eval_on_selector_all(
        "#lane-0 .tok.step", "(all) => all.map((tok) => Number(tok.dataset.i))"
    )
    assert ticked == [step.emitted[0].position for step in MARS.steps[1:]]
    page.get_by_label("Show all outcomes").uncheck()
    assert page.locator("#lane-0 .mars-text.outcomes").count() == 0


def test_a_word_has_its_strongest_colour_and_a_sentence_the_mean(lane_page: LanePage) -> None:
    """A near tie has another than a sure token, and a word has one."""
    page, style = (
        lane_page(ended_view(MARS, "x/0")),
        "(all) => all.map((tok) => tok.getAttribute('style') || '')",
    )
    page.select_option(".mars-r-quantity", "r")
    styles = page.eval_on_selector_all("#lane-0 .tok", style)
    assert ["hue-near" in style for style in styles] == [token.r > 0.9 for token in MARS.tokens]
    assert ["hue-sure" in style for style in styles] == [token.r < 0.9 for token in MARS.tokens]
    page.select_option(".mars-r-granularity", "word")
    styles = page.eval_on_selector_all("#lane-0 .tok", style)
    for at, (before, token) in enumerate(pairwise(MARS.tokens), start=1):
        assert (
            styles[at] == styles[at - 1] or token.piece[0].isspace() or before.piece[-1].isspace()
        )
    page.select_option(".mars-r-granularity", "token")
    page.select_option(".mars-r-quantity", "p")
    read = "(all) => all.map((tok) => parseFloat(tok.style.getPropertyValue('--mars-share')) || 0)"
    alone = page.eval_on_selector_all("#lane-0 .tok", read)
    assert min(alone) < max(alone)
    ends = {
        "word": [at for at, token in enumerate(MARS.tokens) if token.piece[0].isspace()],
        "sentence": [at + 1 for at, token in enumerate(MARS.tokens) if token.piece in (".", "\n")],
    }
    for granularity, pooled in (("word", max), ("sentence", fmean)):
        page.select_option(".mars-r-granularity", granularity)
        colours = page.eval_on_selector_all("#lane-0 .tok", read)
        borders = sorted({0, *ends[granularity], len(alone)})
        for first, after in pairwise(borders):
            assert colours[first:after] == pytest.approx(
                [pooled(alone[first:after])] * (after - first), abs=0.2
            )


def test_a_pinned_token_offers_its_alternatives_to_the_keyboard(lane_page: LanePage) -> None:
    page = lane_page(ended_view(MARS, "x/0"), continues=True)
    at = next(token.position for token in MARS.tokens if token.outcome is Outcome.RELAXED)
    page.focus("#lane-0 .mars-text")
    for _ in range(at + 1):
        page.keyboard.press("ArrowRight")
    popover = page.locator("#lane-0 .mars-pop")
    story = "".join(relaxed_story(MARS.tokens[at], MARS.config.rule, sampled=False))
    expect(popover.locator(".mars-pop-story")).to_have_text(story)
    expect(popover.locator(".mars-pop-top .tied")).to_have_count(2)
    assert popover.locator("button").count() == 0
    page.keyboard.press("Enter")
    assert popover.locator(".mars-continue").count() >= len(MARS.tokens[at].top) - 1
    page.keyboard.press("Tab")
    expect(popover.locator("button").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(popover).to_be_hidden()
    expected(page, "#lane-0 .mars-text").to_be_focused()
    page.locator("#lane-0 .tok").nth(at).click()
    popover.locator("button").first.press("Enter")
    assert page.evaluate("window.triggered.at(-1)") == [
        "lane-0",
        "select",
        {"lane": 0, "index": at, "token": MARS.tokens[at].own},
    ]
    expect(popover).to_be_hidden()
    page.locator("#lane-0 .tok").nth(at).click()
    button(popover, "What if it had been rejected here?").press("Enter")
    assert page.evaluate("window.triggered.at(-1)[2]") == {"lane": 0, "index": at, "rejected": True}
    page = lane_page(ended_view(MARS, "x/0"))  # where nothing can be continued they are no buttons
    page.locator("#lane-0 .tok").nth(4).click()
    expected(page, "#lane-0 .mars-pop").to_be_visible()
    assert page.locator("#lane-0 .mars-pop .mars-continue").count() == 0
    button(page, "Close").click()
    expected(page, "#lane-0 .mars-pop").to_be_hidden()


@pytest.mark.parametrize("trace", [MARS, TREE])
def test_one_step_shows_what_was_drafted_what_was_kept_and_what_the_text_gained(
    lane_page: LanePage, trace: Trace
) -> None:
    page = lane_page(ended_view(STRICT, "x/0"), ended_view(trace, "x/1"))
    page.select_option(".mars-s-lane", "x/1")
    step, place = page.locator(".mars-step"), page.locator(".mars-s-place")
    relaxed = [
        any(token.outcome is Outcome.RELAXED for token in step.tokens) for step in trace.steps
    ]
    first = relaxed.index(True) if any(relaxed) else 0
    if any(relaxed):  # where something happens
        expect(place).to_have_text(f"Step {first + 1} of {len(trace.steps)}")
    for index in sorted({0, first, len(trace.steps) - 1}):
        start = sum(len(each.emitted) for each in trace.steps[:index])
        page.keyboard.press("Escape")  # an open token could lie over the next one
        page.locator("#lane-1 .tok").nth(start).click()
        expect(place).to_have_text(f"Step {index + 1} of {len(trace.steps)}")
        chosen = trace.steps[index]
        drafted = [visible(node.piece) for node in chosen.nodes]
        assert page.locator(".mars-s-draft code").all_text_contents() == drafted
        gained = page.locator(".mars-s-gain code")
        assert gained.all_text_contents() == [visible(token.piece) for token in chosen.emitted]
        kept = sum(token.outcome in ACCEPTED_OR_RELAXED for token in chosen.emitted)
        assert page.locator(".mars-s-draft :is(.accepted, .relaxed)").count() == kept
        expected(page, ".mars-s-words").to_contain_text(f"{len(drafted)} drafted")
    step.focus()
    page.keyboard.press("ArrowLeft")
    expect(place).to_have_text(f"Step {len(trace.steps) - 1} of {len(trace.steps)}")
    button(step, "Play").click()
    expect(button(step, "Pause")).to_be_visible()
    button(step, "The next step").click()
    expect(button(step, "Play")).to_be_visible()


def test_another_theta_at_one_step_is_that_of_the_texts(lane_page: LanePage) -> None:
    page = lane_page(ended_view(MARS, "x/0"))
    said = page.locator(".mars-s-if")
    expect(said).to_contain_text("would keep")
    page.locator(".mars-s-theta").fill("1")
    expect(said).to_contain_text("would refuse it")
    expected(page, ".mars-r-value").to_have_text("θ = 1")
    page.locator(".mars-r-theta").fill("0.5")
    expect(said).to_contain_text("MARS at θ = 0.5 would keep")


PLACE = """([lane, position]) => {
  const text = document.querySelector(`#lane-${lane} .mars-text`),
    token = text.querySelector(`[data-i="${position}"]`);
  return token.getBoundingClientRect().top - text.getBoundingClientRect().top;
}"""
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_texts_scroll_together_and_the_ribbon_leads_to_one_place_in_all(
    lane_page: LanePage,
) -> None:
    traces = [make_trace(rule=rule, new_tokens=600) for rule in ("strict", "mars")]
    views = [ended_view(trace, f"x/{lane}") for lane, trace in enumerate(traces)]
    spans = ((0, 7, 0), (340, 360, 340)), ((0, 7, 0), (300, 320, 340))
    page = lane_page(
        replace(views[0], diverges=7, shared=spans[0]),
        replace(views[1], diverges=7, shared=spans[1], looped=((500, 520),)),
    )
    texts = [page.locator(f"#lane-{lane} .mars-text") for lane in (0, 1)]
    tracks = page.locator(".mars-b-spans")
    assert tracks.nth(1).locator("button").first.get_attribute("title") == (
        "Positions 0 to 6: as in the baseline from the beginning"
    )
    assert page.locator(".mars-b-track small").all_inner_texts() == [
        f"τ {number(trace.summary.tau)}" for trace in traces
    ]
    expect(tracks.nth(1).locator(".looped")).to_have_attribute(
        "title", "Positions 500 to 519: repeats what is before it"
    )
    bottom = "text => text.scrollHeight - text.clientHeight - text.scrollTop < 30"
    for linked in (True, False):
        page.get_by_label("Scroll together").set_checked(linked)
        tracks.nth(1).locator("[data-position='300']").click()
        expected(page, "#lane-1 .tok.pointed").to_have_attribute("data-i", "300")
        page.evaluate(FRAMES)
        heights = [text.evaluate("text => text.clientHeight") for text in texts]
        places = [page.evaluate(PLACE, each) for each in ([0, 340], [1, 300])]
        assert all(0 < place < high for place, high in zip(places, heights, strict=True))
        assert not texts[0].evaluate(bottom)
        texts[1].evaluate("text => text.scrollTo(0, text.scrollHeight)")
        page.evaluate(FRAMES)
        assert texts[0].evaluate(bottom) is linked
    first = tracks.nth(0).locator("button").first
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(tracks.nth(0).locator("button").nth(1)).to_be_focused()


ARABIC = ("سلا", "م علي", "كم", "، هذ", "ص عر", "بي", " كت", "م", "در", "سة")
WIDTH = """name => {
  const range = document.createRange();
  range.selectNodeContents(document.querySelector("#lane-0 " + name));
  return range.getBoundingClientRect().width;
}"""


def test_a_text_is_whole_from_right_to_left_and_read_as_text_and_markdown_that_cannot_act(
    lane_page: LanePage,
) -> None:
    """Letters of words that several tokens wrote are joined as in the plain text."""
    trace = make_trace(rule="mars", new_tokens=9, words=ARABIC)
    page = lane_page(ended_view(trace, "x/0"))
    text, read = page.locator("#lane-0 .mars-text"), page.locator("#lane-0 .mars-read")
    assert text.evaluate("text => getComputedStyle(text).direction") == "rtl"
    as_tokens = page.evaluate(WIDTH, ".mars-text")
    page.select_option(".mars-r-reading", "plain")
    expect(text).to_be_hidden()
    expect(read).to_have_text(trace.text)
    assert read.evaluate("text => getComputedStyle(text).direction") == "rtl"
    assert page.evaluate(WIDTH, ".mars-read") == pytest.approx(as_tokens, abs=1)

    hostile = "# <img src=x onerror=window.ran=1>\n[a](javascript:window.ran=1) **b**"
    markdown = replace(ended_view(trace, "y/0"), markdown=markdown_html(hostile))
    page.select_option(".mars-r-reading", "markdown")
    send(page, 0, markdown)
    expect(read.locator("h1")).to_have_text("<img src=x onerror=window.ran=1>")
    expect(read.locator("strong")).to_have_text("b")
    assert read.locator("a, img").count() == 0 and page.evaluate("window.ran") is None
    send(page, 0, LaneView("MARS", state="running", run="z/0"))  # its tokens are seen as they come
    expect(text).to_be_visible()
    send(page, 0, markdown)
    expect(read).to_be_visible()
    tell(page, "mars:show", {"lane": 0, "position": 3})  # a token of the text is looked for
    expected(page, "#lane-0 .tok.active").to_have_attribute("data-i", "3")


def test_the_first_difference_is_framed_and_its_cause_is_named(lane_page: LanePage) -> None:
    shared = ((0, 7, 0), (9, 12, 9))
    view = ended_view(MARS, "x/0", note="kept a")
    page = lane_page(replace(view, diverges=7, shared=shared))
    assert page.locator("#lane-0 .tok.diverges").get_attribute("data-i") == "7"
    read = "(all) => all.map((tok) => Number(tok.dataset.i))"
    assert page.eval_on_selector_all("#lane-0 .tok.shared", read) == [*range(7), *range(9, 12)]
    page.locator("#lane-0 .tok").nth(6).click()
    page.keyboard.press("ArrowRight")
    assert "first difference" in page.inner_text("#lane-0 .mars-sr")
    expected(page, "#lane-0 .mars-lane-note").to_have_text("kept a")


def test_a_key_and_a_button_go_to_the_next_relaxed_token(lane_page: LanePage) -> None:
    page = lane_page(ended_view(STRICT, "x/0"), ended_view(MARS, "x/1"))
    relaxed = [token.position for token in MARS.tokens if token.outcome is Outcome.RELAXED]
    assert len(relaxed) > 2
    active = page.locator("#lane-1 .tok.active")
    button(page, "Next relaxed token").click()
    expect(active).to_have_attribute("data-i", str(relaxed[0]))
    expected(page, "#lane-1 .mars-pop.pinned").to_be_visible()
    expected(page, "#lane-1 .mars-text").to_be_focused()
    page.keyboard.press("n")  # as the arrows: Enter pins what it goes to, and closes it again
    expected(page, "#lane-1 .mars-pop.pinned").to_be_hidden()
    page.keyboard.press("Enter")
    expected(page, "#lane-1 .mars-pop.pinned").to_be_visible()
    page.keyboard.press("Enter")
    expected(page, "#lane-1 .mars-pop").to_be_hidden()
    page.keyboard.press("Shift+N")
    for key, at in (("n", 1), ("n", 2), ("Shift+N", 1), ("Shift+N", 0), ("Shift+N", -1), ("n", 0)):
        page.keyboard.press(key)
        expect(active).to_have_attribute("data-i", str(relaxed[at]))
    page.focus("#lane-0 .mars-text")  # which has none
    page.keyboard.press("n")
    expect(active).to_have_attribute("data-i", str(relaxed[1]))


@pytest.mark.parametrize("words", [1, 400])
def test_a_text_is_as_high_as_it_needs_and_scrolls_beyond_that(
    lane_page: LanePage, words: int
) -> None:
    page = lane_page(ended_view(make_trace(new_tokens=words), "x/0"))
    text = page.locator("#lane-0 .mars-text")
    height, content = text.evaluate("text => [text.offsetHeight, text.scrollHeight]")
    assert (height < 150) if words == 1 else (150 < height < content)


def test_a_long_text_has_spans_only_near_what_is_in_sight(lane_page: LanePage) -> None:
    """What comes into sight gets them, coloured as the rest; what is far is text without them."""
    trace = make_trace(new_tokens=2_000)
    page = lane_page(ended_view(trace, "x/0"))
    text, last = page.locator("#lane-0 .mars-text"), page.locator('#lane-0 .tok[data-i="1999"]')
    written = re.sub(r"\s", "", trace.text)
    assert re.sub(r"[\s↵]", "", text.text_content() or "") == written
    expect(last).to_have_count(0)
    page.locator(".mars-r-quantity").select_option("entropy")
    text.evaluate("(text) => text.scrollTo(0, text.scrollHeight)")
    expect(last).to_have_class(re.compile(r"\btinted\b"))
    expect(page.locator('#lane-0 .tok[data-i="0"]')).to_have_count(0)
    assert page.locator("#lane-0 .tok").count() < 1_000
    text.focus()
    page.keyboard.press("Home")
    expect(page.locator('#lane-0 .tok.active[data-i="0"]')).to_be_in_viewport()
    assert re.sub(r"[\s↵]", "", text.text_content() or "") == written


@pytest.fixture(scope="module")
def stock(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of Gradio's with the token view."""
    with serving("ui.result", tmp_path_factory.mktemp("stock") / "log") as served:
        page = browser.new_page()
        page.goto(served.url)
        yield page
        page.close()


def test_whether_all_outcomes_are_visible_stays_as_it_was_chosen(stock: Page) -> None:
    stock.evaluate("localStorage.setItem('mars-outcomes', 'true')")
    stock.reload()
    expected(stock, "#trace-lane-1 .mars-part.outcomes").to_be_visible()


def test_the_token_view_works_on_a_stock_gradio_page(stock: Page) -> None:
    stock.locator("#trace-lane-1 .tok.relaxed").first.click()
    pop = stock.locator("#trace-lane-1 .mars-pop.pinned")
    expect(pop).to_contain_text("relaxed")
    assert pop.evaluate("node => getComputedStyle(node).position") == "absolute"


HARD = [
    0.0,
    1.0,
    -1.0,
    0.5,
    1.125,
    1.135,
    12.45,
    99.95,
    999.5,
    999.4999,
    1235.0,
    1245.0,
    9995.0,
    123456.0,
    1234567.0,
    9999999.0,
    9994999.0,
    9995000.0,
    1e7,
    1e300,
    5e-324,
    1e-4,
    9.999e-5,
    9.9999e-5,
    -1e-9,
    0.9995,
    0.99949999,
    0.9994,
    math.nan,
    math.inf,
    -math.inf,
]


def test_the_script_writes_every_number_as_python_does(browser: Browser) -> None:
    rng = random.Random(0)
    values = [*HARD, *(rng.uniform(-1, 1) * 10 ** rng.randint(-8, 9) for _ in range(1500))]
    values += [
        rng.randint(-(10**6), 10**6) / 2 ** rng.randint(0, 12) for _ in range(1500)
    ]  # ties among them
    page = browser.new_page()
    write = "v.map((x) => [number(x), number(x, 4), share(x), duration(x), count(Math.trunc(x))])"
    written = page.evaluate(
        f"(v) => {{ {asset('lane/format.js', 'token_view')}\n return {write}; }}", values
    )
    page.close()
    for value, texts in zip(values, written, strict=True):
        assert texts[:4] == [number(value), number(value, 4), share(value), duration(value)], value
        assert not abs(value) < 1e15 or texts[4] == count(int(value)), value
