"""The blind vote in the browser: nothing tells the answers apart before the vote, the keyboard is enough, Stop leaves no vote."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.steps import axe_problems, wait_for

pytestmark = pytest.mark.browser
STRIP = "#votes-strip .mars-strip"
ROUND = "#votes-round .mars-vote"
# Everything that the page fetches from now on, as text, in window.heard.
LISTEN = """() => {
  window.heard = [];
  const real = window.fetch;
  window.fetch = async (...asked) => {
    const answer = await real(...asked);
    if (!answer.body) return answer;
    const [ours, theirs] = answer.body.tee(), reader = ours.getReader(), decoder = new TextDecoder();
    (async () => { for (let part; !(part = await reader.read()).done;) window.heard.push(decoder.decode(part.value)); })()
      .catch(() => {});  // the window was closed
    return new Response(theirs, { status: answer.status, headers: answer.headers });
  };
}"""


@pytest.mark.parametrize("start", [("?tab=votes", "#votes-write")])
def test_a_round_by_keyboard_names_the_answers_only_after_the_vote(window: Window) -> None:
    page = window.page
    page.uncheck("#votes-fresh input")
    # with a seed at which the two rules write different texts
    fields = {"#votes-max": "24", "#votes-rule-1-parameter-theta": "0.2", "#votes-seed": "3", "#votes-k": "4"}
    for field, value in fields.items():
        page.fill(f"{field} input", value)
        page.locator(f"{field} input").blur()
    page.evaluate(LISTEN)
    page.click("#votes-write")
    page.wait_for_selector(f'{ROUND}[data-state="asking"]')
    heard = page.evaluate("window.heard.join('')")
    assert "process_completed" in heard and "answers" in heard
    seen = heard.lower() + page.inner_html("#votes-round").lower()
    for secret in ("strict", "mars(", "theta", "θ", "\\u03b8", "tok/s", "relaxed"):
        assert secret not in seen
    page.focus(f"{ROUND} .mars-vote-choices button")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".mars-vote-choices button").nth(1)).to_be_focused()
    page.keyboard.press("2")
    page.wait_for_selector(f'{ROUND}[data-state="revealed"]')
    titles = page.locator("#votes-lane-0 h2, #votes-lane-1 h2").all_inner_texts()
    assert [title[:10] for title in titles] == ["Answer A: ", "Answer B: "] and titles[1].endswith(", your choice")
    assert {title[10:].removesuffix(", your choice") for title in titles} == {"Strict", "MARS θ = 0.2"}
    expect(page.locator("#votes-lane-1 .tok").first).to_be_visible()
    assert wait_for(page, "done", STRIP).startswith("You preferred ")
    page.fill("#votes-comment textarea", "<b>clearer</b>")
    page.click("#votes-keep")
    expect(page.locator(".mars-tally-comment").first).to_have_text("<b>clearer</b>")
    expect(page.locator(".mars-tally-table tbody tr").first).to_contain_text("of 1 decided")
    assert axe_problems(page) == {}
    page.set_viewport_size({"width": 360, "height": 780})
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    page.click(".mars-vote-open button")
    page.wait_for_selector("#history-lane-0 .tok")
