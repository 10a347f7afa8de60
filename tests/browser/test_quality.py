"""Studies, also those that are sweeps, and votes on the real page: run, stopped, resumed, read, opened in History; blind
until the vote; hostile texts."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from evaluation.report.example import EXAMPLE
from storage import RunStore
from tests.browser.conftest import Window
from tests.browser.steps import axe_problems, button, compare, expected, wait_for
from tests.serving import Server
from tests.unit.evaluation.report.studies import stored_study

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def study(server: Server) -> str:
    with RunStore(server.database) as store:
        return stored_study(store)


def test_a_result_says_what_studies_found_and_leads_to_the_form_of_one(window: Window) -> None:
    """Of the example there is one; of the small pair there is none yet."""
    page, safety = window.page, window.page.locator("#compare-strip .mars-safety")
    expect(safety).to_contain_text("MARS θ = 0.97 kept 85.6 % [78.5, 92.4] of strict’s score")
    link = safety.get_by_role("link", name="The study").get_attribute("href")
    assert link == f"?tab=quality&study={EXAMPLE}"
    compare(page, tokens=12)
    expect(safety).to_contain_text("No study says how much of strict’s score MARS θ = 0.9 keeps")
    button(safety, "Measure it").click()
    expect(page.get_by_label("Problems", exact=True)).to_have_value("250")
    expect(page.get_by_label("Parameters", exact=False).first).to_have_value("theta = 0.9")
    expected(page, ".mars-study-estimate").to_contain_text("250 problems × 2 lanes = 500 runs")


def read_study(page: Page, study: str) -> None:
    page.locator(f'.mars-study-entry[data-key="{study}"]').click()
    expect(page.locator("#quality-first h2").first).to_have_text("What is kept, and what is gained")
    expected(page, "#quality-first p.mq-open").to_contain_text("of strict’s score")
    expect(page).to_have_url(re.compile(f"tab=quality&study={study}"))
    chart = page.locator("#quality-first [data-name=chart-kept]")
    expect(
        chart.get_by_role("img", name=re.compile("Recovery over Speed-up over the target alone"))
    ).to_be_visible()
    expect(chart.locator(".annotation-text", has_text="MARS θ = 0.9").first).to_be_attached()
    expect(
        chart.locator(".mars-figure[data-state=drawn] .scatterlayer .trace").first
    ).to_be_attached()
    for format, beginning in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"lane,series")):
        with page.expect_download() as download:
            button(chart, f"as {format.upper()}").click()
        assert download.value.suggested_filename == f"mars-chart-kept.{format}"
        assert download.value.path().read_bytes().startswith(beginning)
    page.locator("#quality-prompts summary").click()
    page.locator("#quality-prompts tbody tr", has_text="<script>").first.get_by_role(
        "button"
    ).click()
    for lane in range(2):
        expect(page.locator(f"#quality-lane-{lane} .tok").first).to_be_visible()
    assert (
        page.locator("#quality-texts script, #quality-prompts script, #quality-texts img").count()
        == 0
    )
    page.locator("#quality-rest summary", has_text="How to repeat it").click()
    expected(page, "#quality-rest .mq-code").to_contain_text("mars eval run")
    assert axe_problems(page) == {}
    link = page.get_by_role("link", name="study-report.html").get_attribute("href")
    assert "<h2>Verdict</h2>" in page.request.get(urljoin(page.url, link)).text()
    button(page, "Open in History").click()
    expected(page, "#history-lane-0 .mars-text").to_be_visible()


def in_a_narrow_dark_window(page: Page, study: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    button(page, "Switch between light and dark").click()
    page.goto(f"{page.url.split('?')[0]}?study={study}")
    expect(page.locator("#quality-first table").first).to_be_visible()
    expected(page, "#quality-strip .mars-strip").to_have_attribute("data-state", "done")
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    widths = page.locator("#quality-first .mars-figure").first.evaluate(
        "node => [node.clientWidth, node.scrollWidth]"
    )
    assert widths[0] < 360 < widths[1]  # the chart scrolls within its box


@pytest.mark.parametrize("start", [("?tab=quality", "#study-list")])
def test_a_study_is_started_stopped_resumed_read_and_opened_in_history(
    window: Window, study: str
) -> None:
    """It comes back in a narrow dark window."""
    page, strip = window.page, "#quality-strip .mars-strip"
    button(page, "Start a study").click()
    page.locator("#study-suite select").select_option("demo_arithmetic")
    expected(page, "#study-problems").to_be_visible()
    for name, value in (
        ("problems", "40"),
        ("max-new-tokens", "64"),
        ("parameters", "theta = 0.9"),
    ):
        field = page.locator(f"#study-{name}-input")
        field.fill(value)
        field.blur()
    expect(page.locator(".mars-study-estimate").locator("visible=true")).to_contain_text(
        "40 problems × 3 lanes = 120 runs"
    )
    page.click("#study-run")
    expect(page.locator(f"{strip} p").first).to_contain_text(
        re.compile("Run ([2-9]|[1-9][0-9]+) of 120")
    )
    page.click("#quality-stop")
    assert "nobody works on it" in wait_for(page, "cancelled", strip)
    expect(page).to_have_url(re.compile("tab=quality&study=[0-9a-f]{32}"))
    page.reload()  # what is open and unfinished can be resumed from its address
    page.click("#quality-resume")
    expect(page.locator(f"{strip} p").first).to_contain_text(
        re.compile("Run ([3-9]|[1-9][0-9]+) of 120")
    )
    page.click("#quality-stop")
    wait_for(page, "cancelled", strip)
    expected(page, "#quality-resume").to_be_visible()
    expected(page, "#quality-stop").to_be_hidden()
    expect(page.locator("#quality-first h2").first).to_be_visible()
    read_study(page, study)
    in_a_narrow_dark_window(page, study)


VOTES_STRIP = "#votes-strip .mars-strip"
ROUND = "#votes-round .mars-vote"
# Everything that the page fetches from now on, as text, in window.received.
LISTEN = """() => {
  window.received = [];
  const real = window.fetch;
  window.fetch = async (...request) => {
    const answer = await real(...request);
    if (!answer.body || String(request[1]?.body).includes('"changes"')) return answer;  // the form, which names its rules
    const [ours, theirs] = answer.body.tee(), reader = ours.getReader(), decoder = new TextDecoder();
    (async () => { for (let part; !(part = await reader.read()).done;) window.received.push(decoder.decode(part.value)); })()
      .catch(() => {});  // the window was closed
    return new Response(theirs, { status: answer.status, headers: answer.headers });
  };
}"""


@pytest.mark.parametrize("start", [("?tab=votes", "#votes-write")])
def test_a_round_by_keyboard_names_the_answers_only_after_the_vote(window: Window) -> None:
    page = window.page
    page.uncheck("#votes-fresh input")
    # with a seed at which the two rules write different texts
    fields = {
        "#votes-max-new-tokens": "24",
        "#votes-rule-1-parameter-theta": "0.2",
        "#votes-seed": "7",
        "#votes-k": "4",
    }
    for field, value in fields.items():
        page.fill(f"{field} input", value)
        page.locator(f"{field} input").blur()
    page.evaluate(LISTEN)
    page.click("#votes-write")
    page.wait_for_selector(f'{ROUND}[data-state="asking"]')
    received = page.evaluate("window.received.join('')")
    assert "process_completed" in received and "answers" in received
    seen = received.lower() + page.inner_html("#votes-round").lower()
    for secret in ("strict", "mars(", "theta", "θ", "\\u03b8", "tok/s", "relaxed"):
        assert secret not in seen
    page.focus(f"{ROUND} .mars-vote-choices button")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".mars-vote-choices button").nth(1)).to_be_focused()
    page.keyboard.press("2")
    page.wait_for_selector(f'{ROUND}[data-state="revealed"]')
    titles = page.locator("#votes-lane-0 h2, #votes-lane-1 h2").all_inner_texts()
    assert [title[:10] for title in titles] == ["Answer A: ", "Answer B: "] and titles[1].endswith(
        ", your choice"
    )
    assert {title[10:].removesuffix(", your choice") for title in titles} == {
        "Strict",
        "MARS θ = 0.2",
    }
    expect(page.locator("#votes-lane-1 .tok").first).to_be_visible()
    assert wait_for(page, "done", VOTES_STRIP).startswith("You preferred ")
    page.fill("#votes-comment textarea", "<b>clearer</b>")
    page.click("#votes-keep")
    expect(page.locator(".mars-tally-comment").first).to_have_text("<b>clearer</b>")
    expect(page.locator(".mars-tally-table tbody tr").first).to_contain_text("of 1 decided")
    assert axe_problems(page) == {}
    page.set_viewport_size({"width": 360, "height": 780})
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    page.click(".mars-vote-open button")
    page.wait_for_selector("#history-lane-0 .tok")
